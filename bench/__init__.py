"""What NumaMirror costs and how fast it is, against what people would use instead.

`python -m bench` measures all of it, writes results/*.json and the tables of docs/performance.md.
"""

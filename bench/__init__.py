"""What NumaMirror costs and how fast it is, against what people would use instead.

`make bench` measures, prints one table per measurement and writes results/*.json.
"""

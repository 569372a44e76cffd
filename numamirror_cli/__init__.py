"""NumaMirror: NUMA placement launcher and diagnostics for LLM inference programs."""

__version__ = "0.1.0"

"""Tables and JSON from plain dataclasses; the only room that formats."""

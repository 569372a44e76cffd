"""One file per command: options, help text, order of steps."""

"""What will be run: ELF and script chain, and whether a preload reaches it."""

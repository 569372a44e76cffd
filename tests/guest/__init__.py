"""A real multi-node Linux kernel under QEMU's emulation, with this machine's files inside."""

"""What the hardware is, read from a sysfs root: nodes, sockets, GPUs, home election."""

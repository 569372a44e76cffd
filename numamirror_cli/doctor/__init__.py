"""What stands in the way of local reads on a machine, for a command or for any: checks on facts."""

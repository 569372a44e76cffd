"""What a choice costs and gives, before it is made: from model and machine to bytes and rates."""

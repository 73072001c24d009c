"""What an operator can set: what is allowed, where it comes from, and which of several configurations counts."""

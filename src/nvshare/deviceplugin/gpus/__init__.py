"""The node's GPUs: which there are, which are offered, whether each is well, and where it is."""

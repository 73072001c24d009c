"""Device memory and host memory: whose it is, who comes in, who leaves, and what may be allocated."""

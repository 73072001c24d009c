"""What claims of GPU memory cost a cluster: its scheduler, its API, and the memory that nobody can have."""

"""What is asked of a running scheduler, over its admin API."""

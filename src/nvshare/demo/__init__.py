"""``nvshare-ctl demo``: four jobs that want more memory than two GPUs have, and what became of them."""

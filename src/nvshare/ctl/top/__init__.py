"""``nvshare-ctl top``: a live screen of the GPUs, their clients and their turns."""

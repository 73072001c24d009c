"""``nvshare-ctl doctor``: what of this machine, or of a program, keeps GPUs from being shared."""

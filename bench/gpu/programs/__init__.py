"""The programs of bench/gpu/swap.py, as a user would write them: none knows of nvshare's sharing."""

"""The experiments of swap.py and fit.py."""

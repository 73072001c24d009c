"""Benchmarks on a real GPU with PyTorch."""

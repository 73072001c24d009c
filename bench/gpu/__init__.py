"""Benchmarks on a real GPU: the files here are run, the folders have their parts."""

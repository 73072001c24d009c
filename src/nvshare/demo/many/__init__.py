"""The demonstration with many programs: their contexts alone are larger than the GPU, and those that rest sleep."""

"""Clients' host memory to swap into: how much there may be, and how it is made, filled and sent."""

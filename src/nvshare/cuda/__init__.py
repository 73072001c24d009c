"""The driver's binary interface: its types for C, and the list of its entry points."""

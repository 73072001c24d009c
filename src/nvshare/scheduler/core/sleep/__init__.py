"""Processes that leave their devices to the driver's checkpoint."""

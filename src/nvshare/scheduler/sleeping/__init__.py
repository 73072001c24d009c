"""Processes that leave their devices to the driver's checkpoint, and come back."""

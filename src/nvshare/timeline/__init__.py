"""Timelines of devices, drawn for a browser, for a terminal and for trace viewers."""

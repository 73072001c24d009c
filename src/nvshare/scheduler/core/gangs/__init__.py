"""Clients whose GPU work waits for each other."""

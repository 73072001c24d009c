"""What outlives a scheduler in its run directory: who holds what, and what the operator chose."""

"""The scheduler's decisions, pure: told what happened and what time it is, it answers what to do."""

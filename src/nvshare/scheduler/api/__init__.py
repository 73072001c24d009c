"""What the scheduler shows and what it is told from outside: the admin API, metrics and probes."""

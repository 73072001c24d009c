"""nvsharectl: the command of the original nvshare v0.1.1, by the admin API: it says what the scheduler has done."""

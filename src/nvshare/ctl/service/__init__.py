"""``nvshare-ctl service``: the scheduler that all users of a machine share, as a service of systemd."""

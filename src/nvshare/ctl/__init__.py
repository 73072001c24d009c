"""nvshare-ctl: asks the scheduler, commands it, and starts programs that share a GPU. Each command has a module."""

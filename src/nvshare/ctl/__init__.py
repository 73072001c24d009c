"""nvshare-ctl: asks the scheduler, commands it, and starts programs that take part. One module a command."""

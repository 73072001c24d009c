"""The wire between clients and the scheduler: version 2 (``wire``) and that of nvshare v0.1.1 (``legacy``)."""

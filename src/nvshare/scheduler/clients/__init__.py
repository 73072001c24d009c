"""The clients' side of the scheduler: from an accepted socket to a registered client in its protocol version."""

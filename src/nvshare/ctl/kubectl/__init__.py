"""``kubectl nvshare``: from a workstation, what nvshare-ctl says on the nodes of a cluster."""

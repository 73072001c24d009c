"""Who a client is: the process at the other end, its pod and container, and what kubelet has allocated."""

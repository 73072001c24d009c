"""ResourceClaims: what pods are given of GPUs by dynamic resource allocation, and what the node does for them."""

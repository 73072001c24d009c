"""nvshare-node-agent: what the Kubernetes API says of the node's own pods, and what it is told of the node."""

"""nvshare-node-agent: the only part of nvshare that talks to the Kubernetes API."""

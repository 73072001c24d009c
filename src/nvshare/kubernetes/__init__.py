"""The Kubernetes API, for the programs that have a token for it: node agent and device plugin."""

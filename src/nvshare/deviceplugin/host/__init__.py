"""What the plugin keeps on the host, and what it needs to find there."""

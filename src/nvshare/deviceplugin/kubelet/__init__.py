"""The plugin beside kubelet: registered as long as it runs, asked by kubelet, and followed by the next instance."""

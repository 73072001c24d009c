"""What kubelet is answered, from the virtual devices that are offered and the operator's rules alone. Pure."""

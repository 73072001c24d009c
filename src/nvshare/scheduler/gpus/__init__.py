"""The node's GPUs: which there are, what they are called, and what runs in their memory, as NVML says it."""

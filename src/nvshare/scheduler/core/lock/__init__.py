"""The lock of one device: who holds, who waits and in which order, who must leave."""

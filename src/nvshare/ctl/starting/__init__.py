"""How a program is started that shares its GPUs: found, given a scheduler and an environment, and executed."""

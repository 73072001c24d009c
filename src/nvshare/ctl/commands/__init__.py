"""What can be typed: one module a command, with what --help says of it. Larger ones have a folder beside this one."""

"""The program's process: imports, forks, signals, its end, descriptors, memory."""

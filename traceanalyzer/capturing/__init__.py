"""Captures programs: runs a script or records a block of code; `recorder` is inside the program."""

"""Captures a script or a block of code. `recorder` runs inside the captured program."""

"""What differs between two runs of a program."""

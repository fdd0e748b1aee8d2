"""Compares the meaning of reports before and after a change of the code; see `__main__`."""

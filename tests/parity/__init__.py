"""Whether a change of the code changes what reports mean; see `__main__`."""

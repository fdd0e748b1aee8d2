"""Facts about each op that ran, or would run, on the CPU, for the causes to match."""

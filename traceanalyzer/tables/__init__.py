"""Turns the events of a trace into dataframes of ops, kernels, transfers, and steps."""

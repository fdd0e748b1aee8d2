"""Checks whether a run stays within a budget and a baseline."""

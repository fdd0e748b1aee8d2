"""Analyzes transfers between ops: sources, targets, costs, and round trips."""

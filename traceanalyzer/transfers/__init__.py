"""Transfers between ops: who sent what to whom, what it cost, and what goes back and forth."""

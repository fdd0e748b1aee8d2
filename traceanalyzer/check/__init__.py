"""Whether a run stays within limits: a budget, and a baseline."""

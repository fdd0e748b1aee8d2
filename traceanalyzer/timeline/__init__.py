"""Finds when each device computed, copied, or waited, and which host op it waited for."""

"""When each device computed, copied, or waited, and for which host op."""

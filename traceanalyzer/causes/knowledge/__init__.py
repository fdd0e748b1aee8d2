"""What causes know: library habits, substitutes, host work, and how to say it."""

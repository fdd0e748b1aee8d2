"""What each device did when, and for which host op it stood idle."""

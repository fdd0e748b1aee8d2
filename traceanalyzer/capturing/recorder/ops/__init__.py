"""Eager ops: which ones ran, on which lines, in which device scopes."""

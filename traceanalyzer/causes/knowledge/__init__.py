"""Advice, evidence, and texts that several causes share."""

"""Presentation: one Report document, rendered as a page, as JSON and in the terminal."""

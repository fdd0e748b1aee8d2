"""Builds the report, and renders it as HTML, JSON, Markdown, and terminal output."""

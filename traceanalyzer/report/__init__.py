"""The report: one document, rendered as an HTML page, as JSON, as Markdown, and in the terminal."""

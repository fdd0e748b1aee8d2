"""The Report as one HTML file: from the document alone, whole without scripts, offline."""

from __future__ import annotations

from traceanalyzer.report.page.render import render_page, write_page

__all__ = ["render_page", "write_page"]

"""Write a report to files: whole, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.document import dumps
from traceanalyzer.report.page.render import render_page
from traceanalyzer.whole_file import write_whole

if TYPE_CHECKING:
    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.model import Report


def write_report(
    diagnosis: Diagnosis, html: str | Path | None = None, json: str | Path | None = None
) -> Report:
    """Write the report of a diagnosis as a page, as JSON, or both; return the report."""
    report = assemble(diagnosis)
    write_files(report, html, json)
    return report


def write_files(report: Report, html: str | Path | None, json: str | Path | None) -> None:
    """Write a report; both renderings are made before the first file is touched."""
    texts = {}
    if html is not None:
        texts[Path(html)] = render_page(report)
    if json is not None:
        texts[Path(json)] = dumps(report)
    for file, text in texts.items():
        write_whole(file, text)

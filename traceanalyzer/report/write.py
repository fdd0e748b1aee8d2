"""Write a report to files: whole, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.document import dumps
from traceanalyzer.report.html import render_page
from traceanalyzer.report.markdown import markdown_of, page_markdown
from traceanalyzer.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.model import Report

Form: TypeAlias = Literal["html", "json", "markdown"]


def _html(report: Report) -> str:
    return "" if report.page is None else render_page(report.page, markdown_of(report.page))


def _markdown(report: Report) -> str:
    return "" if report.page is None else page_markdown(report.page)


_TEXT_OF: Final[Mapping[Form, Callable[[Report], str]]] = {
    "html": _html,
    "json": dumps,
    "markdown": _markdown,
}


def write_report(
    diagnosis: Diagnosis,
    html: str | Path | None = None,
    json: str | Path | None = None,
    markdown: str | Path | None = None,
) -> Report:
    """Write the report of a diagnosis in one or more forms; return the report."""
    report = assemble(diagnosis)
    write_files(report, {"html": html, "json": json, "markdown": markdown})
    return report


def write_files(report: Report, files: Mapping[Form, str | Path | None]) -> None:
    """Write a report; all texts are made before the first file is touched."""
    texts = {Path(file): text_of(report, form) for form, file in files.items() if file is not None}
    for file, text in texts.items():
        write_whole(file, text)


def text_of(report: Report, form: Form) -> str:
    """Return a report in one form."""
    return _TEXT_OF[form](report)

"""Renders the report as JSON, HTML, and Markdown, and writes it to files."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.model import Report
from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.html import render_page
from traceanalyzer.report.markdown import markdown_of, page_markdown
from traceanalyzer.whole_file import write_whole

Form: TypeAlias = Literal["html", "json", "markdown"]

# Characters that control a terminal or reorder a diff. JSON strings contain them as escapes.
_ACTIVE: Final = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
_SURROGATES: Final = re.compile("[\ud800-\udfff]")  # lone surrogates, which UTF-8 cannot encode


def write_report(
    diagnosis: Diagnosis,
    html: str | Path | None = None,
    json: str | Path | None = None,
    markdown: str | Path | None = None,
) -> Report:
    """Write the report of a diagnosis in one or more formats, and return it."""
    report = assemble(diagnosis)
    write_files(report, {"html": html, "json": json, "markdown": markdown})
    return report


def write_files(report: Report, files: Mapping[Form, str | Path | None]) -> None:
    """Write a report to files. All formats are rendered before the first file is written."""
    texts = {Path(file): text_of(report, form) for form, file in files.items() if file is not None}
    for file, text in texts.items():
        write_whole(file, text)


def text_of(report: Report, form: Form) -> str:
    """Return a report in the given format."""
    if form == "json":
        return dumps(report)
    if report.page is None:
        return ""
    if form == "markdown":
        return page_markdown(report.page)
    return render_page(report.page, markdown_of(report.page))


def dumps(report: Report) -> str:
    """Return the report as JSON, with unknown values as ``null``.

    The contents of op drawers are left out, because the findings contain them.
    """
    if report.page is not None:
        report = replace(report, page=msgspec.structs.replace(report.page, details={}))
    plain = json.dumps(msgspec.to_builtins(report), ensure_ascii=False, allow_nan=False)
    plain = _SURROGATES.sub("\ufffd", plain)
    inert = _ACTIVE.sub(lambda match: f"\\u{ord(match[0]):04x}", plain)
    return msgspec.json.format(inert, indent=2) + "\n"

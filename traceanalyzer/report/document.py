"""The report in each form: ``report.json``, the page, and Markdown; and written to files."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.html import render_page
from traceanalyzer.report.markdown import markdown_of, page_markdown
from traceanalyzer.whole_file import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.model import Report

Form: TypeAlias = Literal["html", "json", "markdown"]

# Characters that would act on a terminal or reorder a diff: inside a JSON string an escape says
# the same. Lone surrogates are among them, because UTF-8 cannot hold one.
_ACTIVE: Final = re.compile(
    "[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
_SCALARS: Final = frozenset({str, int, float, bool, NoneType})


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
    if form == "json":
        return dumps(report)
    if report.page is None:
        return ""
    if form == "markdown":
        return page_markdown(report.page)
    return render_page(report.page, markdown_of(report.page))


def dumps(report: Report) -> str:
    """Return the report as JSON: keys in the order of the records, unknown values as ``null``."""
    text = _indented(msgspec.to_builtins(report), "\n")
    return _ACTIVE.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def _indented(value: Any, margin: str) -> str:  # noqa: ANN401 - any value of JSON
    """Return what `json.dumps` writes with an indent of two, several times as fast.

    With an indent, `json.dumps` goes through every value in Python. Here lists and objects of
    scalars, such as the rows of tables, are left to its encoder in C.
    """
    is_dict = isinstance(value, dict)
    if not value or not (is_dict or isinstance(value, list | tuple)):
        return _encoder(margin).encode(value)
    inner = f"{margin}  "
    if set(map(type, value.values() if is_dict else value)) <= _SCALARS:
        flat = _encoder(inner).encode(value)
        return f"{flat[0]}{inner}{flat[1:-1]}{margin}{flat[-1]}"
    if is_dict:
        key = _encoder(inner).encode
        items = [f"{key(name)}: {_indented(item, inner)}" for name, item in value.items()]
    else:
        items = [_indented(item, inner) for item in value]
    opening, closing = "{}" if is_dict else "[]"
    return f"{opening}{inner}{f',{inner}'.join(items)}{margin}{closing}"


@cache
def _encoder(margin: str) -> json.JSONEncoder:
    return json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(f",{margin}", ": "))

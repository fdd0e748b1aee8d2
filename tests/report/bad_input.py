"""Reports in which each text is hostile."""

from __future__ import annotations

import base64
import json
import re
import struct
import zlib
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from traceanalyzer.model import Cell, PackedTable, Report, Table, ToolInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# All at once: markup, markup of the terminal, templates, and what does not show.
HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\" ' `{{ 7 * 7 }}` [bold red]"
    "\u2028\u2029\u202egnp.exe\u2066\u200b\ufeff\x00\x07\x1b[31m\x9b31m\ud800"
)
HOSTILE_TEXTS = {
    "everything": HOSTILE,
    "script": "</script><script>window.hit=1;alert(1)</script>",
    "cdata": "]]><!-- --><![CDATA[ <svg onload=window.hit=1>",
    "comment": "<!--<script>window.hit=1//",
    "image": "\"><img src=x onerror=window.hit=1> ' ` ${window.hit=1} {{ 7 * 7 }} javascript:",
    "separators": "a\u2028b\u2029c\u0085d\r\ne\tf",
    "directions": "\u202egnp.exe\u2066\u2067\u200f\u061c\u200b\ufeff",
    "nulls": "\x00\x07\x1b[31m\x9b31m\ud800 \udfff\uffff",
    "emoji": "👩‍👩‍👧🏳️‍🌈😀" * 12,
    "right to left": "שכבה/רכיב/الطبقة الأولى/مقياس" * 3,
    "combining": "Z" + "\u0351\u036b\u0343\u032a" * 200,
    "long": "w" * 100_000,
    "path": "/".join(["..", "C:\\x", "//evil.example/a?b=c&d=e#f%00"] * 40),
    "empty": "",
}

# What this program names itself, though any text would fit.
_OWN_WORDS = {"placement", "kind", "phase", "basis", "direction", "certainty", "tier", "reader"}
_OWN_COLUMNS = _OWN_WORDS | {"requested_device", "step_kind"}


def with_texts(report: Report, *hostile: str) -> Report:
    """Return the report with these texts, in turn, in place of its own; equal ones stay equal."""
    known: dict[str, str] = {}

    def change(text: str) -> str:
        # Unlike ones must stay unlike: ids and names lead from one table to another.
        return known.setdefault(text, f"{hostile[len(known) % len(hostile)]}{len(known)}")

    changed: Report = _changed(report, change)
    return changed


def _changed(value: Any, change: Callable[[str], str]) -> Any:  # noqa: ANN401
    if isinstance(value, ToolInfo):
        return value
    if isinstance(value, PackedTable):
        return _packed(value, change)
    if isinstance(value, Table):
        return _table(value, change)
    if isinstance(value, tuple):
        return tuple(_changed(item, change) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **dict(_fields(value, change)))
    return value


def _fields(record: Any, change: Callable[[str], str]) -> Iterator[tuple[str, Any]]:  # noqa: ANN401
    for field in fields(record):
        value = getattr(record, field.name)
        free = re.search(r"\bstr\b", str(field.type)) and field.name not in _OWN_WORDS
        if isinstance(value, str):
            yield field.name, change(value) if free else value
        elif isinstance(value, tuple) and all(isinstance(item, str) for item in value):
            yield field.name, tuple(map(change, value)) if free else value
        else:
            yield field.name, _changed(value, change)


def _table(table: Table, change: Callable[[str], str]) -> Table:
    def cell(name: str, value: Cell) -> Cell:
        return change(value) if isinstance(value, str) and name not in _OWN_COLUMNS else value

    rows = tuple(
        tuple(cell(name, value) for name, value in zip(table.columns, row, strict=True))
        for row in table.rows
    )
    return replace(table, rows=rows)


def _packed(table: PackedTable, change: Callable[[str], str]) -> PackedTable:
    plain = zlib.decompress(base64.b64decode(table.data))
    (length,) = struct.unpack_from("<I", plain)
    header = json.loads(plain[4 : 4 + length])
    for column in header["columns"]:
        if column.get("texts") and column["name"] not in _OWN_COLUMNS:
            column["texts"] = [change(text) for text in column["texts"]]
    written = json.dumps(header, separators=(",", ":")).encode("ascii")
    written += b" " * (-(4 + len(written)) % 8)
    body = struct.pack("<I", len(written)) + written + plain[4 + length :]
    return replace(table, data=base64.b64encode(zlib.compress(body)).decode("ascii"))

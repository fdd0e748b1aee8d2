"""The report as text: ``report.json``, written so that two of them can be compared line by line."""

from __future__ import annotations

import json
import re
from functools import cache
from types import NoneType
from typing import Any

import msgspec

from traceanalyzer.errors import TraceFormatError
from traceanalyzer.model import (
    SCHEMA_VERSION,
    CaptureFileWhere,
    Report,
    SourceWhere,
    TraceWhere,
    Where,
)

# Characters that would act on a terminal or reorder a diff: inside a JSON string an escape says
# the same. Lone surrogates are among them, because UTF-8 cannot hold one.
_ACTIVE = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
_SCALARS = frozenset({str, int, float, bool, NoneType})
WHERES = {"plane": TraceWhere, "file": SourceWhere, "capture_file": CaptureFileWhere}


def dumps(report: Report) -> str:
    """Return the report as JSON: keys in the order of the records, unknown values as ``null``."""
    text = _indented(msgspec.to_builtins(report), "\n")
    return _ACTIVE.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def loads(text: str, *, source: str = "report") -> Report:
    """Read a report from JSON text. Keys that later versions added are ignored.

    Raises:
        TraceFormatError: The text is no report of this schema version.
    """
    try:
        plain = json.loads(text)
        version = plain.get("schema_version") if isinstance(plain, dict) else None
        if isinstance(version, int) and version != SCHEMA_VERSION:
            reason = f"it has version {version}"
            raise ValueError(reason)  # noqa: TRY301 - one message for all that is no such report
        return msgspec.convert(plain, Report, dec_hook=_where)
    except (ValueError, RecursionError) as error:
        reason = str(error).partition("\n")[0]
        msg = (
            f"{source}: not a report of schema version {SCHEMA_VERSION}: {reason}; "
            "write it again with `traceanalyzer report --json`"
        )
        raise TraceFormatError(msg) from error


def _where(kind: type, value: object) -> object:
    """Convert a place: its keys say which record it is."""
    if kind is not Where or not isinstance(value, dict):
        raise NotImplementedError
    for key, record in WHERES.items():
        if key in value:
            return msgspec.convert(value, record)
    msg = f"a place has one of the keys {', '.join(WHERES)}"
    raise ValueError(msg)


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

"""The Report as text: ``report.json``, written so that two of them can be compared line by line."""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from traceanalyzer.errors import TraceFormatError
from traceanalyzer.model import SCHEMA_VERSION, Report

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["dumps", "load", "loads", "write"]

# Characters that would act on a terminal or reorder a diff: inside a JSON string an escape says
# the same. Lone surrogates are among them, for UTF-8 cannot hold one.
_ACTIVE = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")
_SCALARS = frozenset({str, int, float, bool, NoneType})


def dumps(report: Report) -> str:
    """Returns the report as JSON: keys in the contract's order, unknown values as ``null``."""
    text = _indented(report.as_json(), "\n")
    return _ACTIVE.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def _indented(value: Any, margin: str) -> str:  # noqa: ANN401 - any value of JSON
    """Returns what `json.dumps` writes with an indent of two, several times as fast.

    With an indent that goes through every value in Python. Here what holds nothing but scalars, as
    a row of a table does, is left to its encoder in C.

    Args:
        value: Dicts, lists and scalars.
        margin: The line break before what stands beside the value, and the spaces after it.
    """
    is_dict = isinstance(value, dict)
    if not value or not (is_dict or isinstance(value, list)):
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


def write(report: Report, path: Path) -> None:
    """Writes the report's JSON to a file."""
    path.write_text(dumps(report), encoding="utf-8")


def load(path: Path) -> Report:
    """Reads a report from a file.

    Raises:
        TraceFormatError: The file holds no report that this version understands.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        msg = f"{path}: not a report: the file is not UTF-8 text; make it anew with `report --json`"
        raise TraceFormatError(msg) from error
    return loads(text, source=str(path))


def loads(text: str, *, source: str = "report") -> Report:
    """Reads a report from JSON text; keys that later versions added are passed over.

    Args:
        text: The JSON text.
        source: What to call the text in an error, such as its path.

    Raises:
        TraceFormatError: The text is no report that this version understands.
    """
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:
        msg = f"{source}: not a report: {_first_line(error)}; make it anew with `report --json`"
        raise TraceFormatError(msg) from error
    version = plain.get("schema_version") if isinstance(plain, dict) else None
    if version != SCHEMA_VERSION:
        msg = (
            f"{source}: not a report of schema version {SCHEMA_VERSION} "
            f"(schema_version is {version!r:.40}); make it anew with `report --json`"
        )
        raise TraceFormatError(msg)
    try:
        report: Report = _built(Report, plain, "report")
    except _MismatchError as error:
        msg = f"{source}: not a report: {error}; make it anew with `report --json`"
        raise TraceFormatError(msg) from error
    return report


class _MismatchError(Exception):
    """A value that is not what the contract says; the message begins with its place."""


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _built(kind: Any, value: Any, place: str) -> Any:  # noqa: ANN401 - driven by annotations
    """Returns a JSON value as the annotated type, or raises `_MismatchError`."""
    if is_dataclass(kind):
        return _record(kind, value, place)
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _one_of(get_args(kind), value, place)
    if origin is tuple:
        _expect(isinstance(value, list), place, "a list", value)
        item_kind = get_args(kind)[0]
        return tuple(_built(item_kind, item, f"{place}[{i}]") for i, item in enumerate(value))
    if origin is Literal:
        allowed = get_args(kind)
        _expect(value in allowed, place, f"one of {', '.join(map(str, allowed))}", value)
        return value
    _expect(_is_scalar(kind, value), place, kind.__name__, value)
    return value


def _is_scalar(kind: type, value: object) -> bool:
    if isinstance(value, bool):  # a bool is an int to Python, not to the contract
        return kind is bool
    return isinstance(value, int | float) if kind is float else isinstance(value, kind)


def _one_of(kinds: tuple[Any, ...], value: Any, place: str) -> Any:  # noqa: ANN401
    if value is None and NoneType in kinds:
        return None
    records: list[Any] = [kind for kind in kinds if is_dataclass(kind)]
    if records and isinstance(value, dict):
        fitting = [kind for kind in records if _required(kind) <= value.keys()]
        _expect(bool(fitting), place, " or ".join(kind.__name__ for kind in records), value)
        return _record(fitting[0], value, place)
    scalars = [kind for kind in kinds if kind is not NoneType and not is_dataclass(kind)]
    for kind in scalars:
        try:
            return _built(kind, value, place)
        except _MismatchError:
            continue
    names = " or ".join("null" if kind is NoneType else kind.__name__ for kind in kinds)
    raise _MismatchError(_sentence(place, names, value))


def _record(kind: Any, value: Any, place: str) -> Any:  # noqa: ANN401
    _expect(isinstance(value, dict), place, "an object", value)
    record: Mapping[str, Any] = value
    hints = _hints(kind)
    missing = sorted(_required(kind) - record.keys())
    if missing:
        msg = f"{place} lacks {', '.join(missing)}"
        raise _MismatchError(msg)
    built = {
        name: _built(hint, record[name], f"{place}.{name}")
        for name, hint in hints.items()
        if name in record
    }
    try:
        return kind(**built)
    except ValueError as error:  # a table whose rows do not fit its columns
        msg = f"{place}: {_first_line(error)}"
        raise _MismatchError(msg) from error


@cache
def _hints(kind: Any) -> dict[str, Any]:  # noqa: ANN401
    return get_type_hints(kind)


@cache
def _required(kind: Any) -> frozenset[str]:  # noqa: ANN401
    return frozenset(field.name for field in fields(kind) if field.default is MISSING)


def _expect(holds: bool, place: str, expected: str, value: object) -> None:  # noqa: FBT001
    if not holds:
        raise _MismatchError(_sentence(place, expected, value))


def _sentence(place: str, expected: str, value: object) -> str:
    return f"{place} should be {expected}, not {value!r:.40}"

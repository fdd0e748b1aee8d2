"""Reads what causes know from `causes/data/*.toml`: a record per entry, each with its source."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any, TypeVar

from traceanalyzer.model import Fix

_T = TypeVar("_T")


def read(name: str, kind: type[_T]) -> tuple[_T, ...]:
    """Return the entries of a file as records of a type, in order."""
    text = (files("traceanalyzer.causes") / "data" / f"{name}.toml").read_text("utf-8")
    (entries,) = tomllib.loads(text).values()
    return tuple(kind(**{key: _value(key, value) for key, value in e.items()}) for e in entries)


def _value(key: str, value: Any) -> Any:  # noqa: ANN401 - a TOML value
    if key == "fixes":
        return tuple(Fix(**fix) for fix in value)
    return tuple(value) if isinstance(value, list) else value

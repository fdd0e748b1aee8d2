"""From what the analysis found to records of the document: picoseconds become microseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pandas as pd

from traceanalyzer.model import Table
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from traceanalyzer.model._record import Record

R = TypeVar("R", bound="Record")
_NONE_SUCH: Final = object()


def us(time_ps: float | None) -> float | None:
    """Return microseconds; None if unknown."""
    return None if time_ps is None else time_ps / PS_PER_US


def to_record(kind: type[R], found: object, **values: Any) -> R:  # noqa: ANN401
    """Return a record of a kind: given values, and the others from `found` by their names.

    `found` is an object or a mapping; a field `total_us` is made from its `total_ps`.
    """
    for field in fields(kind):  # type: ignore[arg-type]
        name = field.name
        if name in values:
            continue
        value = _value(found, name)
        if value is _NONE_SUCH and name.endswith("_us"):
            value = us(_value(found, f"{name.removesuffix('_us')}_ps"))
        if value is not _NONE_SUCH:  # fields without a value have a default
            values[name] = value
    return kind(**values)


def _value(found: object, name: str) -> Any:  # noqa: ANN401
    if isinstance(found, Mapping):
        return found.get(name, _NONE_SUCH)
    return getattr(found, name, _NONE_SUCH)


def in_us(frame: pd.DataFrame, origin_ps: int = 0) -> pd.DataFrame:
    """Turn columns in picoseconds into microseconds; moments count from the origin."""
    out = {}
    for name in map(str, frame.columns):
        if name.endswith("_ps"):
            column = frame[name] - origin_ps if name in {"start_ps", "at_ps"} else frame[name]
            out[f"{name.removesuffix('_ps')}_us"] = column / PS_PER_US
        else:
            out[name] = frame[name]
    return pd.DataFrame(out)


def table(
    frame: pd.DataFrame, most_rows: int | None = None, total_rows: int | None = None
) -> Table:
    """Return the first rows of a dataframe as a table of the document."""
    shown = frame.head(most_rows) if most_rows is not None else frame
    plain = shown.astype(object).where(shown.notna(), None)
    return Table(
        columns=tuple(map(str, frame.columns)),
        rows=tuple(map(tuple, plain.to_numpy(dtype=object).tolist())),
        total_rows=len(frame) if total_rows is None else total_rows,
    )

"""The report's tables, and the base class of its records, which rounds figures by unit."""

import math
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, TypeAlias, dataclass_transform

from msgspec import Meta

Us: TypeAlias = Annotated[float, Meta(ge=0, description="Microseconds, three decimals.")]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1, description="A fraction of one.")]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Rate: TypeAlias = Annotated[float, Meta(ge=0)]
Cell: TypeAlias = str | int | float | bool | None

Certainty: TypeAlias = Literal["certain", "likely", "possible"]
Direction: TypeAlias = Literal["h2d", "d2h", "d2d", "p2p", "h2h", "unknown"]

# Matched with the last part of a field's name.
_SHARES = frozenset({"certain", "likely", "possible", "share"})
_WHOLE = frozenset({"bytes", "count", "kernels", "line", "occurrences", "rows"})
# By name, because this module must not import pandas, whose missing values are no floats.
_PANDAS_MISSING = frozenset({"NAType", "NaTType"})


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Record:
    """A record of the report that converts its values to plain types and rounds them."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]  # of a subclass
            value = _settled(field.name, getattr(self, field.name))
            object.__setattr__(self, field.name, value)


class DataTable(Record):
    """A table. ``total_rows`` is the number of rows before it was cut or aggregated."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    total_rows: Count

    def __post_init__(self) -> None:
        """Round each cell by the unit in its column's name."""
        columns = tuple(self.columns)
        rows = tuple(tuple(map(_settled, columns, row)) for row in self.rows)
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "rows", rows)

    def records(self) -> list[dict[str, Cell]]:
        """Return each row as a dict by column name."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


class PackedTable(Record):
    """A compressed table of many rows; `traceanalyzer.report.packed` unpacks it."""

    columns: tuple[str, ...]
    rows: Count
    total_rows: Count
    data: str  # base64; the format is in `traceanalyzer.report.packed`


class OpRef(Record):
    """An op: its stable key, its name, and its source line."""

    op_id: str
    name: str
    type: str
    host: str
    placement: str
    file: str | None = None
    line: int | None = None
    source: str | None = None  # the text of that line


class Gain(Record):
    """The most time that a fix can save, in microseconds per step."""

    high: Us | None
    basis: str  # "exposed" or "input wait"
    note: str | None = None  # the assumptions, for faster input


def _settled(name: str, value: Any) -> Any:  # noqa: ANN401 - any field of any record
    """Convert a value to a plain type and round it by its unit; return ``None`` if unknown."""
    if isinstance(value, list | tuple):
        return tuple(_settled(name, item) for item in value)
    if type(value).__name__ in _PANDAS_MISSING:
        return None
    if hasattr(value, "item"):  # a scalar of numpy
        value = value.item()
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    unit = name.rsplit("_", 1)[-1]
    if unit in _WHOLE and value.is_integer():
        return int(value)  # pandas turns a column of integers with gaps into floats
    return round(value, 6 if unit in _SHARES else 3) + 0.0  # turns -0.0 into 0.0

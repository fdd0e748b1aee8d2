"""Read blocks as a reader does."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from traceanalyzer.model.blocks import Code, Line, Link, Quantity, Strong, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from traceanalyzer.model import PackedTable
    from traceanalyzer.model.blocks import BigTable, Block, Cell, Text

B = TypeVar("B")


def only(blocks: Iterable[Block], kind: type[B]) -> B:
    """Return the one block of a kind."""
    (found,) = [block for block in blocks if isinstance(block, kind)]
    return found


def plain(text: Text) -> str:
    """Return text without links and marks; figures keep their unit."""
    return "".join(map(_plain, text))


def _plain(part: Any) -> str:  # noqa: ANN401
    if isinstance(part, Code | Link | Strong):
        return part.text
    if isinstance(part, Line):
        return part.file if part.line is None else f"{part.file}:{part.line}"
    return f"{part.value:g} {part.unit}" if isinstance(part, Quantity) else str(part)


def records(table: Table | BigTable) -> list[dict[str, Any]]:
    """Return rows by column, text cells without links; an unknown column is left out."""
    if not isinstance(table, Table):
        columns = unpack(table.packed)
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    names = [column.name for column in table.columns]
    return [dict(zip(names, map(_cell, row), strict=True)) for row in table.rows]


def _cell(cell: Cell) -> str | float | None:
    return plain(cell) if isinstance(cell, tuple) else cell


def unpack(table: PackedTable) -> dict[str, list[str | float | None]]:
    """Return the columns of a packed table."""
    plain = zlib.decompress(base64.b64decode(table.data))
    (length,) = struct.unpack_from("<I", plain)
    header = json.loads(plain[4 : 4 + length])
    found, at, rows = {}, 4 + length, header["rows"]
    for head in header["columns"]:
        kind = np.dtype("<" + head["type"])
        planes = np.frombuffer(plain, "u1", kind.itemsize * rows, at).reshape(kind.itemsize, rows)
        raw = np.ascontiguousarray(planes.T).view(kind).ravel()
        found[head["name"]] = _values(raw, head)
        at += planes.size + -planes.size % 8
    return found


def _values(raw: NDArray[Any], head: Mapping[str, Any]) -> list[str | float | None]:
    if raw.dtype.kind == "f":
        return [None if value != value else value for value in raw.tolist()]  # noqa: PLR0124 - NaN
    none, texts = np.iinfo(raw.dtype).max, head["texts"]
    if texts is not None:
        return [None if code == none else texts[code] for code in raw.tolist()]
    per, offset = head["per"], head["offset"]
    return [None if value == none else (offset + value) / per for value in raw.tolist()]

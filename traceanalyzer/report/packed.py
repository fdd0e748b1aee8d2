"""Packs tables of many rows into compressed columns of binary numbers and distinct texts.

The data is compressed in zlib's format (RFC 1950), which a browser's ``DecompressionStream`` calls
``deflate``, and then encoded in base64. Uncompressed, it consists of:

- four bytes, little-endian: the length of the header;
- the header as JSON, padded with spaces so that it ends at a multiple of eight:
  ``{"rows": N, "columns": [{"name", "type", "per", "offset", "texts"}]}``;
- each column, little-endian, ``type`` one of ``u1``, ``u2``, ``u4`` and ``f8``, padded with zeros
  to a multiple of eight. The bytes of a column are in planes: the first byte of every value, then
  the second byte of every value, and so on, which compresses better.

A number is ``(offset + raw) / per``. The largest integer of a type and NaN encode None. With
``texts``, a raw value is the index of its text. Integers and times in nanoseconds are exact up to
2**53.
"""

import base64
import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.model import PackedTable

_ALIGNMENT: Final = 8
_LEVEL: Final = 7
_EXACT: Final = 2**53  # whole numbers up to here are exact as floats
_WHOLE: Final = tuple(np.dtype(name) for name in ("<u1", "<u2", "<u4"))


class Numbers(NamedTuple):
    """A column of numbers."""

    values: NDArray[Any]  # NaN is None
    per: float = 1  # values are rounded to this fraction of a unit: 1000 for three decimals


class Texts(NamedTuple):
    """A column of texts."""

    codes: NDArray[Any]  # index of the text of each row; below 0 for None
    texts: Sequence[str]


def pack(
    columns: Mapping[str, Numbers | Texts], total_rows: int, *, level: int = _LEVEL
) -> PackedTable:
    """Pack columns of equal length into a table."""
    heads, bodies, rows = [], [], 0
    for name, column in columns.items():
        if isinstance(column, Texts):
            codes, kind = np.asarray(column.codes, np.int64), _narrowest(len(column.texts))
            raw = np.where(codes < 0, np.iinfo(kind).max, codes).astype(kind)
            head = {"per": 1, "offset": 0, "texts": list(column.texts)}
        else:
            raw, head = _numbers(column)
        rows = len(raw)
        heads.append({"name": name, "type": raw.dtype.str[1:], **head})
        planes = np.ascontiguousarray(raw.view("u1").reshape(rows, raw.itemsize).T).tobytes()
        bodies.append(planes + bytes(-len(planes) % _ALIGNMENT))
    header = json.dumps({"rows": rows, "columns": heads}, separators=(",", ":")).encode("ascii")
    header += b" " * (-(4 + len(header)) % _ALIGNMENT)
    plain = struct.pack("<I", len(header)) + header + b"".join(bodies)
    data = base64.b64encode(zlib.compress(plain, level)).decode("ascii")
    return PackedTable(columns=tuple(columns), rows=rows, total_rows=total_rows, data=data)


def _numbers(column: Numbers) -> tuple[NDArray[Any], dict[str, Any]]:
    """Return numbers as integer multiples of `1 / per` if they fit, otherwise as floats."""
    values = np.asarray(column.values)
    if values.dtype.kind != "i":
        values = values.astype(np.float64, copy=False)
    known = np.isfinite(values)
    finite = values if known.all() else values[known]
    most, least = (float(finite.max()), float(finite.min())) if len(finite) else (0.0, 0.0)
    is_exact = max(most, -least) <= _EXACT / column.per
    offset = round(least * column.per) if least < 0 and is_exact else 0
    highest = round(most * column.per) - offset if is_exact else _EXACT
    if highest >= np.iinfo(_WHOLE[-1]).max:
        floats = np.where(known, values, np.nan).astype("<f8")
        return floats, {"per": 1, "offset": 0, "texts": None}
    kind = _narrowest(highest + 1)
    raw = np.full(len(values), np.iinfo(kind).max, kind)
    raw[known] = (np.round(finite * column.per) - offset).astype(kind)
    return raw, {"per": column.per, "offset": offset, "texts": None}


def _narrowest(count: int) -> np.dtype[Any]:
    """Return the smallest dtype that can encode `count` distinct values and None."""
    return next((k for k in _WHOLE if count <= np.iinfo(k).max), _WHOLE[-1])


def unpack(table: PackedTable) -> dict[str, list[str | float | None]]:
    """Unpack a table into its columns."""
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

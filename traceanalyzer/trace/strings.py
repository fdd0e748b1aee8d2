"""Stores columns of strings and integers, and reads the strings at positions in a file."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.native import wire

_INT64_MAX: Final = 2**63 - 1
_WHOLE: Final = re.compile("-?[0-9]{1,19}")
SEED: Final = secrets.randbits(63)
_BATCH: Final = 1 << 16  # strings decoded at a time, which bounds the lists of their positions


@dataclass(frozen=True, eq=False)
class Strings:
    """A column of strings, dictionary-coded."""

    codes: NDArray[np.int32]  #: index into `values` for each row, -1 where there is no string
    values: tuple[str, ...]  #: the distinct strings, and possibly some that no row uses

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def present(self) -> NDArray[np.bool_]:
        """A mask of the rows that have a string."""
        return self.codes >= 0

    def used(self) -> set[str]:
        """Return the distinct strings in use."""
        codes = np.unique(self.codes)
        return {self.values[c] for c in codes[codes >= 0].tolist()}

    def take(self, rows: NDArray[np.int64]) -> Strings:
        """Return the strings at `rows` (indices or a mask)."""
        return Strings(self.codes[rows], self.values)

    def to_list(self) -> list[str | None]:
        """Return a list of plain strings, with None for missing ones."""
        return [self.values[c] if c >= 0 else None for c in self.codes.tolist()]


@dataclass(frozen=True, eq=False)
class IntegerColumn:
    """A column of integers."""

    values: NDArray[np.int64]  #: 0 where absent; unsigned 64-bit stats keep their bits
    present: NDArray[np.bool_]  #: which rows have a value


def bytes_at(buffer: NDArray[np.uint8], position: int) -> bytes:
    """Return the bytes whose length prefix is at a position, or no bytes for -1."""
    begin, end = wire.string_bounds(buffer, np.array([position]))
    return buffer[begin[0] : end[0]].tobytes()


def texts_at(buffer: NDArray[np.uint8], positions: NDArray[np.int64]) -> list[str]:
    """Return the strings whose length prefixes are at some positions, with "" for -1."""
    view = buffer.data
    texts: list[str] = []
    for first in range(0, len(positions), _BATCH):
        begin, end = wire.string_bounds(buffer, positions[first : first + _BATCH])
        bounds = zip(begin.tolist(), end.tolist(), strict=True)
        texts += [str(view[i:j], "utf-8", "replace") for i, j in bounds]
    return texts


def numbered(bits: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the distinct values in ascending order, and the index of each value among them."""
    most = int(bits.max())
    if most > 4 * len(bits) + 1024:
        return np.unique(bits, return_inverse=True)
    is_used = np.zeros(most + 1, np.bool_)  # counting is several times as fast as sorting
    is_used[bits] = True
    return np.flatnonzero(is_used).astype(np.uint64), (np.cumsum(is_used) - 1)[bits]


def distinct(codes: NDArray[np.int32], values: list[str]) -> Strings:
    """Return a column in which equal texts have the same code."""
    if len(set(values)) < len(values):
        index: dict[str, int] = {}
        merged = np.array([index.setdefault(value, len(index)) for value in values], np.int32)
        codes = np.where(codes >= 0, merged[codes], np.int32(-1))
        values = list(index)
    return Strings(codes, tuple(values))


def whole_number(text: str) -> int | None:
    """Parse text as a decimal int64, or return None if it is not one."""
    if not _WHOLE.fullmatch(text):  # `int` also reads "1_000", " 1" and digits of other scripts
        return None
    value = int(text)
    return value if abs(value) <= _INT64_MAX else None

"""What repeats, exactly, in a sequence of codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from traceanalyzer.native.events import find_repeat

if TYPE_CHECKING:
    from numpy.typing import NDArray


LEAST_REPEATS: Final = 3  # fewer may be chance
_LEAST_SHARE: Final = (9, 10)  # of the sequence: what repeats less is a loop within something
_LOOKS: Final = 64  # comparisons for each entry, after which a sequence made to be slow is given up


class Repeat(NamedTuple):
    """A stretch of a sequence in which each entry is the one `period` entries before it.

    Attributes:
        begin: Its first entry.
        end: Its last entry's successor.
        period: The shortest period, in entries.
    """

    begin: int
    end: int
    period: int


def repeat(codes: NDArray[np.int32]) -> Repeat | None:
    """Find what a sequence repeats, exactly, over nine tenths of it and three times or more.

    The last time, or the first, may be cut short. The time this takes grows as the sequence does.

    Args:
        codes: The sequence, int32.

    Returns:
        The stretch with the shortest such period, or None where there is none.
    """
    if len(codes) < LEAST_REPEATS:
        return None
    found = find_repeat(codes, LEAST_REPEATS, _LEAST_SHARE, _LOOKS)
    return Repeat(*found) if found else None


class Pieces(NamedTuple):
    """How alike the pieces of a sequence are.

    Attributes:
        share: How much of the sequence lies in pieces that are like the commonest one, of the
            entries from the first bound to the last; 0 where that is there once.
        size: Entries of the commonest piece.
        is_common: Which pieces are like it.
    """

    share: float
    size: int
    is_common: NDArray[np.bool_]


def pieces(codes: NDArray[np.int32], bounds: NDArray[np.int64]) -> Pieces:
    """Compare the pieces of a sequence; two are alike if they are so entry by entry.

    Args:
        codes: The sequence, int32.
        bounds: Where its pieces begin, rising, and where the last one ends, int64.
    """
    size = np.diff(bounds)
    if len(size) < 2:  # noqa: PLR2004 - nothing to compare with
        return Pieces(0.0, 0, np.zeros(len(size), np.bool_))
    low, high = int(bounds[0]), int(bounds[-1])
    place = np.arange(high - low, dtype=np.int64) - np.repeat(bounds[:-1] - low, size)
    # A piece's number: its entries' random numbers, each times a power for its place, added up
    # modulo 2**64. Two pieces with one number differ with a chance of one in 10**18.
    random = np.random.default_rng(0).integers(1, 2**63, size=int(codes.max()) + 2, dtype=np.uint64)
    powers = np.cumprod(np.full(int(size.max()), np.uint64(0x9E3779B97F4A7C15)), dtype=np.uint64)
    number = np.add.reduceat(random[codes[low:high]] * powers[place], bounds[:-1] - low)
    _, kind, count = np.unique(number, return_inverse=True, return_counts=True)
    kind = kind.reshape(-1)
    entries = np.bincount(kind, weights=size)
    entries[count < 2] = 0  # noqa: PLR2004
    common = int(entries.argmax())
    alike = kind == common
    return Pieces(float(entries[common] / (high - low)), int(size[alike][0]), alike)

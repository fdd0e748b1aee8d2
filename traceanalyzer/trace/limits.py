"""Bounds on what a file may cost: the memory of its report, and what it decompresses to."""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, Final

from traceanalyzer.errors import TraceFormatError, TraceTooLargeError
from traceanalyzer.format import size_text

if TYPE_CHECKING:
    from collections.abc import Iterator

_RAISE_IT: Final = "raise it with --max-memory (max_memory_bytes in Python), or record fewer steps"
# Peaks of whole reports, of traces of 5 to 127 MB: 267 MB and 3.4 to 3.8 times the columns. Other
# shapes take more.
_LIBRARIES: Final = 270_000_000
_TIMES_COLUMNS: Final = 5


def report_bytes(columns_bytes: int) -> int:
    """Return about how much memory a report takes at its peak, estimated before it is made."""
    return _LIBRARIES + _TIMES_COLUMNS * columns_bytes


class MemoryNeed:
    """The memory that the columns of a trace take, and the limit on that of its report."""

    def __init__(self, limit_bytes: int | None) -> None:
        self._limit_bytes = limit_bytes
        self._columns_bytes = 0

    def add(self, columns_bytes: int) -> None:
        """Take so much more memory; raise TraceTooLargeError where the report would exceed it."""
        self._columns_bytes += columns_bytes
        needed_bytes = report_bytes(self._columns_bytes)
        if self._limit_bytes is not None and needed_bytes > self._limit_bytes:
            msg = (
                f"a report needs {size_text(needed_bytes)} of memory or more, above the limit of "
                f"{size_text(self._limit_bytes)}; {_RAISE_IT}"
            )
            raise TraceTooLargeError(msg)


# --- Gzip -----------------------------------------------------------------------------------------

# Traces of the corpus shrink to between a half and a sixteenth; the repetitive ones of tests to a
# fiftieth. Deflate's limit is 1:1032, which a bomb comes close to.
MAX_RATIO: Final = 250
# Below this size a high ratio is harmless, and files of a few lines can have one.
FREE_BYTES: Final = 64 << 20
# The profiler writes no more than 2 GiB; as JSON the most that TensorFlow wrote is a tenth of it.
MAX_BYTES: Final = 4 << 30

_CHUNK: Final = 1 << 20
_READ: Final = 1 << 16
_GZIP: Final = 16 + zlib.MAX_WBITS
_MAGIC: Final = b"\x1f\x8b"


class DamagedGzipError(TraceFormatError):
    """The compressed data cannot be read to its end."""

    def __init__(self, message: str, bytes_lost: int) -> None:
        super().__init__(f"{message}; copy it again, or record again")
        #: Compressed bytes from the damage on; 0 where the file is cut short.
        self.bytes_lost = bytes_lost


def inflate(file: BinaryIO, size: int, *, max_bytes: int | None = None) -> Iterator[bytes]:
    """Decompress a gzip file in pieces of at most 1 MiB: a small file may hold terabytes.

    Args:
        file: The file, at its beginning.
        size: Its length in bytes.
        max_bytes: Refuse more decompressed bytes than this.

    Raises:
        DamagedGzipError: The data is cut short or damaged; what precedes was yielded.
        TraceTooLargeError: It decompresses to more than the limits allow.
    """
    limit = MAX_BYTES if max_bytes is None else min(max_bytes, MAX_BYTES)
    engine = zlib.decompressobj(_GZIP)
    consumed, produced = 0, 0
    pending = b""
    while pending := pending or file.read(_READ):
        if engine.eof:
            # Members may follow one another; what else follows, often padding, is not data.
            if not pending.startswith(_MAGIC):
                return
            engine = zlib.decompressobj(_GZIP)
        before = engine.copy()
        try:
            piece = engine.decompress(pending, _CHUNK)
        except zlib.error as error:
            yield _until_damage(before, pending)
            msg = f"the gzip data is damaged after byte {consumed:,} of {size:,}"
            raise DamagedGzipError(msg, max(size - consumed, 1)) from error
        rest = engine.unused_data if engine.eof else engine.unconsumed_tail
        consumed += len(pending) - len(rest)
        pending = rest
        produced += len(piece)
        if produced > limit:
            msg = f"it decompresses to more than the limit of {size_text(limit)}; {_RAISE_IT}"
            raise TraceTooLargeError(msg)
        if produced > FREE_BYTES and produced > MAX_RATIO * consumed:
            msg = (
                f"its first {consumed:,} bytes decompress to {size_text(produced)}: no profile "
                "shrinks that much, so this is a gzip bomb; record again"
            )
            raise TraceTooLargeError(msg)
        if piece:
            yield piece
    # A last match may still be held back, where the piece before it filled its bound.
    if not engine.eof and (piece := engine.decompress(b"", _CHUNK)):
        yield piece
    if not engine.eof:
        msg = f"the gzip file is cut short: its {size:,} bytes end before the data does"
        raise DamagedGzipError(msg, 0)


def _until_damage(engine: zlib._Decompress, data: bytes) -> bytes:
    """Decompress byte by byte what a failed call threw away: all up to the damage."""
    pieces: list[bytes] = []
    with suppress(zlib.error):
        pieces.extend(engine.decompress(data[i : i + 1]) for i in range(len(data)))
    return b"".join(pieces)

"""Limits the memory that a trace's report needs, and the decompressed size of a trace file."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final

from traceanalyzer.errors import TraceFormatError, TraceTooLargeError
from traceanalyzer.format import size_text

_FEWER: Final = "record fewer steps"
_RAISE_IT: Final = f"raise it with --max-memory (max_memory_bytes in Python), or {_FEWER}"
# Peak memory of whole reports, for traces of 5 to 127 MB: 267 MB and 3.4 to 3.8 times the columns.
# Other kinds of traces take more.
_LIBRARIES: Final = 270_000_000
_TIMES_COLUMNS: Final = 5


def report_bytes(columns_bytes: int) -> int:
    """Estimate the peak memory of a report, in bytes, from the size of the trace's columns."""
    return _LIBRARIES + _TIMES_COLUMNS * columns_bytes


class MemoryNeed:
    """The memory that a trace's report needs, checked against a limit."""

    def __init__(self, limit_bytes: int | None) -> None:
        self._limit_bytes = limit_bytes
        self._columns_bytes = 0

    def add(self, columns_bytes: int) -> None:
        """Add columns, or raise TraceTooLargeError if the report would exceed the limit."""
        self._columns_bytes += columns_bytes
        needed_bytes = report_bytes(self._columns_bytes)
        if self._limit_bytes is not None and needed_bytes > self._limit_bytes:
            msg = (
                f"a report needs at least {size_text(needed_bytes)} of memory, but the limit is "
                f"{size_text(self._limit_bytes)}; {_RAISE_IT}"
            )
            raise TraceTooLargeError(msg)


# --- Gzip -----------------------------------------------------------------------------------------

# Gzip shrinks real traces to between 1/2 and 1/16, and repetitive ones to 1/50. A gzip bomb comes
# close to deflate's limit, 1/1032.
MAX_RATIO: Final = 250
# Below this size a high ratio is harmless, and files of a few lines can have one.
FREE_BYTES: Final = 64 << 20
# The profiler writes at most 2 GiB; the JSON that TensorFlow wrote is at most a tenth of that.
MAX_BYTES: Final = 4 << 30

_CHUNK: Final = 1 << 20
_READ: Final = 1 << 16
_GZIP: Final = 16 + zlib.MAX_WBITS
_MAGIC: Final = b"\x1f\x8b"
_AGAIN: Final = "copy it again, or record again"


def inflate(file: BinaryIO, size: int, *, max_bytes: int | None = None) -> Iterator[bytes]:
    """Decompress a gzip file in pieces of at most 1 MiB, as a small file can expand to terabytes.

    `size` is the length of the file, which is at its beginning. Refuse more decompressed bytes than
    `max_bytes`.

    Raises:
        TraceFormatError: The data is cut short or damaged.
        TraceTooLargeError: It decompresses to more than the limits allow.
    """
    limit = MAX_BYTES if max_bytes is None else min(max_bytes, MAX_BYTES)
    engine = zlib.decompressobj(_GZIP)
    consumed, produced = 0, 0
    pending = b""
    while pending := pending or file.read(_READ):
        if engine.eof:
            # Other members can follow; any other bytes, often padding, are not data.
            if not pending.startswith(_MAGIC):
                return
            engine = zlib.decompressobj(_GZIP)
        try:
            piece = engine.decompress(pending, _CHUNK)
        except zlib.error as error:
            msg = f"the gzip data is damaged after byte {consumed:,} of {size:,}; {_AGAIN}"
            raise TraceFormatError(msg) from error
        rest = engine.unused_data if engine.eof else engine.unconsumed_tail
        consumed += len(pending) - len(rest)
        pending = rest
        produced += len(piece)
        if produced > limit:
            advice = _FEWER if limit == MAX_BYTES else _RAISE_IT
            msg = f"it decompresses to more than the limit of {size_text(limit)}; {advice}"
            raise TraceTooLargeError(msg)
        if produced > FREE_BYTES and produced > MAX_RATIO * consumed:
            msg = (
                f"its first {consumed:,} bytes decompress to {size_text(produced)}: no profile "
                "compresses that well, so this is a gzip bomb; record again"
            )
            raise TraceTooLargeError(msg)
        if piece:
            yield piece
    # The decompressor can hold back a last match if the previous piece was full.
    if not engine.eof and (piece := engine.decompress(b"", _CHUNK)):
        yield piece
    if not engine.eof:
        msg = f"the gzip file is cut short: its {size:,} bytes end before the data does; {_AGAIN}"
        raise TraceFormatError(msg)

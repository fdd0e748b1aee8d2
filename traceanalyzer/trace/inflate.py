"""Decompresses gzip within bounds: a small file may claim to be, or hold, terabytes."""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, Final

from traceanalyzer.errors import TraceFormatError, TraceTooLargeError
from traceanalyzer.format import size_text
from traceanalyzer.trace.memory_need import RAISE_IT

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    """The compressed data cannot be read to its end.

    Attributes:
        bytes_lost: Compressed bytes from the damage on; 0 where the file is cut short.
    """

    def __init__(self, message: str, bytes_lost: int) -> None:
        """Keep the loss beside the message."""
        super().__init__(message)
        self.bytes_lost = bytes_lost


def inflate(file: BinaryIO, size: int, *, max_bytes: int | None = None) -> Iterator[bytes]:
    """Decompress a gzip file piece by piece.

    Args:
        file: The file, at its beginning.
        size: Its length in bytes.
        max_bytes: Refuse more decompressed bytes than this.

    Yields:
        Pieces of at most 1 MiB.

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
            piece = _until_damage(before, pending)
            yield piece
            msg = (
                f"the gzip data is damaged after byte {consumed:,} of {size:,}; copy it again, "
                "or record again"
            )
            raise DamagedGzipError(msg, max(size - consumed, 1)) from error
        rest = engine.unused_data if engine.eof else engine.unconsumed_tail
        consumed += len(pending) - len(rest)
        pending = rest
        produced += len(piece)
        _check_bounds(consumed, produced, limit)
        if piece:
            yield piece
    if not engine.eof:
        # A last match may still be held back, where the piece before it filled its bound.
        if piece := engine.decompress(b"", _CHUNK):
            yield piece
        if not engine.eof:
            msg = (
                f"the gzip file is cut short: its {size:,} bytes end before the data does; "
                "copy it again, or record again"
            )
            raise DamagedGzipError(msg, 0)


def _until_damage(engine: zlib._Decompress, data: bytes) -> bytes:
    """Decompress byte by byte what a failed call threw away: all up to the damage."""
    pieces: list[bytes] = []
    with suppress(zlib.error):
        pieces.extend(engine.decompress(data[i : i + 1]) for i in range(len(data)))
    return b"".join(pieces)


def _check_bounds(consumed: int, produced: int, limit: int) -> None:
    if produced > limit:
        msg = f"it decompresses to more than the limit of {size_text(limit)}; {RAISE_IT}"
        raise TraceTooLargeError(msg)
    if produced > FREE_BYTES and produced > MAX_RATIO * consumed:
        msg = (
            f"its first {consumed:,} bytes decompress to {size_text(produced)}: no profile "
            "shrinks that much, so this is a gzip bomb; record again"
        )
        raise TraceTooLargeError(msg)

"""How much memory a report takes, estimated from its trace before the trace is read."""

from __future__ import annotations

from typing import Final

from traceanalyzer.errors import TraceTooLargeError
from traceanalyzer.format import size_text

RAISE_IT: Final = "raise it with --max-memory (max_memory_bytes in Python), or record fewer steps"
# Peaks of whole reports, of traces of 5 to 127 MB: 267 MB and 3.4 to 3.8 times the columns. Other
# shapes take more.
_LIBRARIES: Final = 270_000_000
_TIMES_COLUMNS: Final = 5


def report_bytes(columns_bytes: int) -> int:
    """Return about how much memory a report takes at its peak."""
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
                f"{size_text(self._limit_bytes)}; {RAISE_IT}"
            )
            raise TraceTooLargeError(msg)

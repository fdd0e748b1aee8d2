"""How much memory a report takes, estimated from its trace before the trace is read."""

from __future__ import annotations

from typing import Final

from traceanalyzer.errors import TraceTooLargeError

RAISE_IT: Final = "raise it with --max-memory (max_memory_bytes in Python), or record fewer steps"
# Peaks of whole reports, of traces of 5 to 127 MB: 267 MB and 3.4 to 3.8 times the columns. Other
# shapes take more.
_LIBRARIES: Final = 270_000_000
_TIMES_COLUMNS: Final = 5


def report_bytes(columns_bytes: int) -> int:
    """Return how much memory a report takes at its peak, about.

    Args:
        columns_bytes: What the trace's columns take.
    """
    return _LIBRARIES + _TIMES_COLUMNS * columns_bytes


def refuse_beyond(limit_bytes: int | None, columns_bytes: int) -> None:
    """Refuse a trace whose report would take more memory than a limit.

    Args:
        limit_bytes: The limit; None for none.
        columns_bytes: What the trace's columns take, as far as is known.

    Raises:
        TraceTooLargeError: It would.
    """
    needed_bytes = report_bytes(columns_bytes)
    if limit_bytes is not None and needed_bytes > limit_bytes:
        msg = (
            f"a report takes {needed_bytes / 1e6:,.0f} MB of memory or more, above the limit of "
            f"{limit_bytes / 1e6:,.0f} MB; {RAISE_IT}"
        )
        raise TraceTooLargeError(msg)

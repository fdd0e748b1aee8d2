"""This process's own stderr, less what TensorFlow says there because of a capture in code."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.capturing.stderr import StderrFilter

__all__ = ["filtered_stderr"]

_STDERR: Final = 2
_CHUNK: Final = 1 << 16
_HOLD_S: Final = 0.05


@contextlib.contextmanager
def filtered_stderr(filter_: StderrFilter) -> Iterator[bool]:
    """Send file descriptor 2 through a filter meanwhile.

    Args:
        filter_: What the bytes go through.

    Yields:
        Whether it is so; not where there is no stderr.
    """
    try:
        original = os.dup(_STDERR)
    except OSError:
        yield False
        return
    source, sink = os.pipe()
    thread = threading.Thread(
        target=_pass_on, args=(source, original, filter_), name="stderr", daemon=True
    )
    thread.start()
    os.dup2(sink, _STDERR)
    os.close(sink)
    try:
        yield True
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        os.dup2(original, _STDERR)  # closes the last end that writes, unless a child has one
        # A child that has the end still may keep it open for long: what it writes goes on through.
        thread.join(timeout=1.0)


def _pass_on(source: int, original: int, filter_: StderrFilter) -> None:
    with contextlib.suppress(OSError):
        while True:
            wait_s = _HOLD_S if filter_.is_holding else None
            if not select.select([source], [], [], wait_s)[0]:
                _write(original, filter_.flush())
                continue
            data = os.read(source, _CHUNK)
            if not data:
                break
            _write(original, filter_.feed(data))
        _write(original, filter_.flush())
    os.close(source)
    os.close(original)


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]

"""Opens the trace of one host, whatever its format, and turns every failure into one plain line."""

from __future__ import annotations

import stat
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np

from traceanalyzer.errors import TraceFormatError, TraceNotFoundError, TraceTooLargeError
from traceanalyzer.format import printable
from traceanalyzer.trace import local_trace, sniff, trace_json, xplane
from traceanalyzer.trace.clock import on_one_clock
from traceanalyzer.trace.columns import Damage
from traceanalyzer.trace.discovery import LOCAL_TRACE, XPLANE
from traceanalyzer.trace.limits import DamagedGzipError, inflate

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from traceanalyzer.trace.columns import Trace
    from traceanalyzer.trace.discovery import HostFile


_QUOTED_MESSAGES: Final = 3  # of an empty profile's own messages; one usually says it
_MANGLED: Final = (
    "its bytes were destroyed: a program treated it as text and replaced bytes by U+FFFD; copy the "
    "original again as binary"
)


def read_host(host_file: HostFile, *, max_bytes: int | None = None, near_ns: int = 0) -> Trace:
    """Read the trace of one host; its `damage` describes the part that could not be read.

    Args:
        host_file: The file, from `find_runs`; its content takes precedence over its name.
        max_bytes: Refuse a trace that would need more memory than this.
        near_ns: The clock of another host of the run; see `clock.on_one_clock`.

    Raises:
        TraceNotFoundError: There is no such file.
        TraceFormatError: The file cannot be opened or is not a trace.
        TraceTooLargeError: It needs more memory than `max_bytes`, or is a gzip bomb.
    """
    name = _shown_name(host_file.path)
    try:
        trace = _read(host_file, max_bytes)
    except TraceFormatError as error:
        kind = TraceTooLargeError if isinstance(error, TraceTooLargeError) else TraceFormatError
        msg = f"{name}: {error}"
        raise kind(msg) from error
    except FileNotFoundError as error:
        msg = f"{name}: the file no longer exists; check the path"
        raise TraceNotFoundError(msg) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path, a map of a shrunk file
        why = printable((getattr(error, "strerror", None) or str(error)).lower())
        msg = f"{name}: cannot be opened or read ({why}); check the file and its permissions"
        raise TraceFormatError(msg) from error
    if not trace.planes:
        msg = f"{name}: {_nothing_in(trace)}"
        raise TraceFormatError(msg)
    return on_one_clock(trace, near_ns)


def _shown_name(path: Path) -> str:
    """Return the file's name, after that of its run, if any: hosts recur in every run."""
    in_run = path.parts[-4:-2] == ("plugins", "profile")
    return printable("/".join(path.parts[-2:]) if in_run else path.name)


def _read(host_file: HostFile, max_bytes: int | None) -> Trace:
    status = host_file.path.stat()
    if not stat.S_ISREG(status.st_mode):
        what = "a directory" if stat.S_ISDIR(status.st_mode) else "a device, a pipe or a socket"
        msg = f"this is {what}, not a file; give a trace file or a log directory"
        raise TraceFormatError(msg)
    if status.st_size == 0:
        raise TraceFormatError(_empty(host_file))
    with host_file.path.open("rb") as file:
        head = file.read(sniff.HEAD_BYTES)
        if sniff.content_of(head) == sniff.GZIP:
            file.seek(0)
            return _read_gzip(host_file, file, status.st_size, max_bytes)
    # Map the file instead of reading it: strings are looked up on demand.
    mapped = np.asarray(np.memmap(host_file.path, np.uint8, mode="r"))
    return _decode(host_file, mapped, max_bytes)


def _read_gzip(host_file: HostFile, file: BinaryIO, size: int, max_bytes: int | None) -> Trace:
    pieces = inflate(file, size, max_bytes=max_bytes)
    whole = bytearray(next(pieces, b""))
    head = bytes(whole[: sniff.HEAD_BYTES])
    if not head:
        raise TraceFormatError(_empty(host_file))
    if sniff.content_of(head) in {None, sniff.GZIP}:
        msg = f"inside the gzip, {_not_a_trace(head)}"
        raise TraceFormatError(msg)
    damage = None
    try:
        for piece in pieces:
            whole += piece
    except DamagedGzipError as error:
        damage = error
    is_cut = damage is not None and damage.bytes_lost > 0
    try:
        trace = _decode(host_file, np.frombuffer(whole, np.uint8), max_bytes, is_cut=is_cut)
    except TraceFormatError as error:
        # Damage to the decompressed content is a consequence and need not be reported.
        if damage is None or isinstance(error, TraceTooLargeError):
            raise
        raise damage from None
    if damage is None:
        return trace
    if not is_cut:
        raise damage
    before = trace.damage or Damage(bytes_lost=0, places=0, events_kept=trace.events)
    lost, places = before.bytes_lost + damage.bytes_lost, before.places + 1
    return replace(trace, damage=replace(before, bytes_lost=lost, places=places))


def _decode(
    host_file: HostFile, data: NDArray[np.uint8], max_bytes: int | None, *, is_cut: bool = False
) -> Trace:
    head = data[: sniff.HEAD_BYTES].tobytes()
    content = sniff.content_of(head)
    if content == sniff.JSON:
        return trace_json.read(data.data, is_cut=is_cut, max_bytes=max_bytes)
    if content not in {sniff.XSPACE, sniff.LOCAL_TRACE}:
        raise TraceFormatError(_not_a_trace(head))
    # The two encodings begin alike, so the name decides if it shows the format.
    if host_file.format != XPLANE and LOCAL_TRACE in {content, host_file.format}:
        return local_trace.read(data.data, max_bytes=max_bytes)
    try:
        return xplane.decode(data, max_bytes=max_bytes)
    except TraceTooLargeError:
        raise
    except TraceFormatError as error:
        raise TraceFormatError(_MANGLED if sniff.is_mangled(head) else str(error)) from None


def _empty(host_file: HostFile) -> str:
    if host_file.format == XPLANE:
        return (
            "the file is empty (0 bytes): the profiler writes that when a trace is over its limit "
            "of 2 GiB; record fewer steps, or trace at a lower level"
        )
    return "the file is empty (0 bytes): it was not written, or not copied; copy or record it again"


def _not_a_trace(head: bytes) -> str:
    if sniff.is_mangled(head):
        return _MANGLED
    if words := sniff.what_it_is(head):
        return f"this is {words}"
    return (
        "this is not a trace: no format of the profiler begins with the bytes "
        f"{head[:8].hex(' ')}; copy it again, or record again"
    )


def _nothing_in(trace: Trace) -> str:
    said = [*trace.errors, *trace.warnings]
    if not said:
        return "the profile is empty (no planes): nothing was recorded; record again"
    quoted = "; ".join(f'"{printable(text)}"' for text in said[:_QUOTED_MESSAGES])
    return f"the profile is empty; the profiler says: {quoted}; fix that, and record again"

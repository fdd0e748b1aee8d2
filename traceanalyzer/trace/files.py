"""Opens the trace of one host. Its first bytes decide the format, because names can be wrong."""

import re
import stat
from typing import Final

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.errors import TraceFormatError, TraceNotFoundError, TraceTooLargeError
from traceanalyzer.format import counted, printable
from traceanalyzer.trace import local_trace, trace_json, xplane
from traceanalyzer.trace.clock import LONGEST_PS, on_one_clock
from traceanalyzer.trace.columns import Trace
from traceanalyzer.trace.discovery import EVENTS_FILE, LOCAL_TRACE, TRACE_JSON, XPLANE, HostFile
from traceanalyzer.trace.limits import inflate

_PS_PER_HOUR: Final = 3.6e15
_QUOTED_MESSAGES: Final = 3  # of an empty profile's own messages; one usually says it
_MANGLED: Final = (
    "the file is corrupt: a program treated it as text and replaced bytes with U+FFFD; copy the "
    "original again as binary"
)


def read_host(host_file: HostFile, *, max_bytes: int | None = None, near_ns: int = 0) -> Trace:
    """Read the trace of one host. `Trace.damage` describes unreadable parts.

    The content decides the format, not the name. Refuse a trace that would need more memory than
    `max_bytes`. `near_ns` is the `origin_ns` of another host's trace: see `clock.on_one_clock`.

    Raises:
        TraceNotFoundError: There is no such file.
        TraceFormatError: The file cannot be opened or is not a trace.
        TraceTooLargeError: It needs more memory than `max_bytes`, or is a gzip bomb.
    """
    path = host_file.path
    in_run = path.parts[-4:-2] == ("plugins", "profile")
    name = printable("/".join(path.parts[-2:]) if in_run else path.name)  # hosts recur in runs
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
    trace = on_one_clock(trace, near_ns)
    if not trace.events and (nothing := _no_event_in(trace)):
        msg = f"{name}: {nothing}; record again"
        raise TraceFormatError(msg)
    return trace


def _read(host_file: HostFile, max_bytes: int | None) -> Trace:
    status = host_file.path.stat()
    if not stat.S_ISREG(status.st_mode):
        what = "a directory" if stat.S_ISDIR(status.st_mode) else "a device, pipe, or socket"
        msg = f"this is {what}, not a file; give a trace file or a log directory"
        raise TraceFormatError(msg)
    if status.st_size == 0:
        raise TraceFormatError(_empty(host_file))
    with host_file.path.open("rb") as file:
        if file.read(len(_GZIP)) == _GZIP:
            file.seek(0)
            content = bytearray()
            for piece in inflate(file, status.st_size, max_bytes=max_bytes):
                content += piece
            if not content:
                raise TraceFormatError(_empty(host_file))
            return _decode(host_file, np.frombuffer(content, np.uint8), max_bytes)
    # Map the file instead of reading it: strings are looked up on demand.
    mapped = np.asarray(np.memmap(host_file.path, np.uint8, mode="r"))
    return _decode(host_file, mapped, max_bytes)


def _decode(host_file: HostFile, data: NDArray[np.uint8], max_bytes: int | None) -> Trace:
    head = data[:_HEAD_BYTES].tobytes()
    content = _format_of(head)
    if content == TRACE_JSON:
        return trace_json.read(data.data, max_bytes=max_bytes)
    if content is None:
        raise TraceFormatError(_not_a_trace(head))
    # The two encodings begin alike, so the name decides if it shows the format.
    if host_file.format != XPLANE and LOCAL_TRACE in {content, host_file.format}:
        return local_trace.read(data.data, max_bytes=max_bytes)
    try:
        return xplane.decode(data, max_bytes=max_bytes)
    except TraceTooLargeError:
        raise
    except TraceFormatError as error:
        raise TraceFormatError(_MANGLED if _is_mangled(head) else str(error)) from None


def _empty(host_file: HostFile) -> str:
    if host_file.format == XPLANE:
        return (
            "the file is empty (0 bytes): the profiler writes empty files for traces over 2 GiB; "
            "record fewer steps, or trace at a lower level"
        )
    return "the file is empty (0 bytes): it was not written, or not copied; copy or record it again"


def _no_event_in(trace: Trace) -> str:
    """Return why no event of a trace can be used, or "" if it simply has none."""
    if number := trace.impossible_events:
        hours = LONGEST_PS / _PS_PER_HOUR
        return (
            f"its {counted(number, 'event')} cannot be put in order: their times are negative, too "
            f"large, or more than {hours:.0f} hours apart"
        )
    if trace.damage is not None:
        return f"none of its events can be read: it is damaged in {trace.damage.places:,} places"
    return ""


def _nothing_in(trace: Trace) -> str:
    said = [*trace.errors, *trace.warnings]
    if not said:
        return "the profile is empty (no planes): nothing was recorded; record again"
    quoted = "; ".join(f'"{printable(text)}"' for text in said[:_QUOTED_MESSAGES])
    return f"the profile is empty: the profiler reported {quoted}; fix that, and record again"


# --- The first bytes ------------------------------------------------------------------------------

_HEAD_BYTES: Final = 4096  # enough to tell text from an encoding, and read at once
_GZIP: Final = b"\x1f\x8b"
# Other files that users pass, by a pattern at the beginning, with the message to show.
_OTHERS: Final = tuple(
    (re.compile(pattern, re.DOTALL), words)
    for pattern, words in (
        (rb"PK\x03\x04", "a zip archive; unpack it, and give the directory"),
        (rb".{257}ustar", "a tar archive; unpack it, and give the directory"),
        (rb"\x28\xb5\x2f\xfd", "compressed with zstd; decompress it first (`zstd -d`)"),
        (rb"\xfd7zXZ\x00", "compressed with xz; decompress it first (`xz -d`)"),
        (rb"BZh", "compressed with bzip2; decompress it first (`bzip2 -d`)"),
        (rb"\x89HDF\r\n", "an HDF5 file, such as saved Keras weights, not a profile"),
        (rb"SQLite format 3\x00", "an SQLite database, e.g. from Nsight Systems, not a profile"),
        (
            rb"version https://git-lfs",
            "a Git LFS pointer, not the file itself; fetch it with `git lfs pull`",
        ),
        (rb".{0,52}brain\.Event:", EVENTS_FILE),
        (
            rb"\x00*\Z",
            "nothing but zero bytes: the copy or the disk failed; copy it again, or record again",
        ),
        (
            rb"(?i)\s*<(?:!doctype|html|\?xml)",
            "a web page, perhaps from a failed download; download the file itself",
        ),
    )
)
_TEXT: Final = "a text file, not a profile; give a HOST.xplane.pb or a log directory"
_JSON_START: Final = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*(?:\{[ \t\r\n]*[\"}]|\[)")
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")  # except tab, line ends and escape
_REPLACEMENT: Final = "\ufffd".encode()
# The first field of an XSpace or a local.trace is a message or a string: a tag of one byte and of
# wire type 2, then a length. If it is field 1, a plane or a map's entry, the first field in it is a
# number or a string.
_FIRST: Final = re.compile(
    rb"(?:\x0a[\x80-\xff]{0,9}[\x00-\x7f](?:[\x08\x0a\x10\x12\x18\x1a\x20\x22\x28\x2a\x30\x32\x38"
    rb"\x3a\x40\x42\x48\x4a\x50\x52\x58\x5a\x60\x62\x68\x6a\x70\x72\x78\x7a]|\Z)"
    rb"|[\x12\x1a\x22\x2a\x32\x3a\x42\x4a\x52\x5a\x62\x6a\x72\x7a][\x80-\xff]{0,9}[\x00-\x7f])"
)
# A map's entry in local.trace: its second field is a message, a device with a name. That of a plane
# is a name.
_DEVICE: Final = re.compile(
    rb".[\x80-\xff]{0,9}[\x00-\x7f](?:\x08[\x80-\xff]{0,9}[\x00-\x7f])?"
    rb"\x12[\x80-\xff]{0,4}[\x00-\x7f][\x0a\x10]",
    re.DOTALL,
)


def _format_of(head: bytes) -> str | None:
    if _is_text(head):
        return TRACE_JSON if _JSON_START.match(head) else None
    if not _FIRST.match(head) or any(pattern.match(head) for pattern, _ in _OTHERS):
        return None
    return LOCAL_TRACE if _DEVICE.match(head) else XPLANE


def _not_a_trace(head: bytes) -> str:
    if _is_mangled(head):
        return _MANGLED
    found = (words for pattern, words in _OTHERS if pattern.match(head))
    if words := next(found, _TEXT if _is_text(head) else ""):
        return f"this is {words}"
    return (
        "this is not a trace: no format of the profiler begins with the bytes "
        f"{head[:8].hex(' ')}; copy it again, or record again"
    )


def _is_mangled(head: bytes) -> bool:
    """Return whether a program treated the file as text and replaced all invalid bytes.

    Such a file is valid UTF-8 with many U+FFFD characters.
    """
    return head.count(_REPLACEMENT) > 1 and _is_utf8(head)


def _is_text(head: bytes) -> bool:
    return not _CONTROL.search(head) and _is_utf8(head)


def _is_utf8(head: bytes) -> bool:
    try:
        head.decode()
    except UnicodeDecodeError as error:
        # The head can end in the middle of a character.
        return error.reason == "unexpected end of data"
    return True

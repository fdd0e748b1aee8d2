"""The file beside a trace, `HOST.placement.json.gz`: written whole or not at all, read warily."""

from __future__ import annotations

import gc
import gzip
import json
import secrets
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.decode import DamagedDocumentError, capture_file_of
from traceanalyzer.capture_file.document import FORMAT, VERSION
from traceanalyzer.capture_file.encode import document_of
from traceanalyzer.errors import CaptureFileError, TraceFormatError
from traceanalyzer.format import printable
from traceanalyzer.trace.inflate import inflate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from traceanalyzer.capture_file.document import CaptureFile, Json

SUFFIX: Final = ".placement.json.gz"
# What the builder writes is at most a tenth of this; `limits` says why.
MAX_BYTES: Final = 400_000_000
_TRACE_SUFFIXES: Final = (".xplane.pb", ".xplane.pb.gz")
_COMPRESSION: Final = 6
_AGAIN: Final = "record again with `traceanalyzer capture`, or delete it to do without it"


def path_beside(trace: Path) -> Path:
    """Return where the capture file of an xplane file lies."""
    for suffix in _TRACE_SUFFIXES:
        if trace.name.endswith(suffix):
            return trace.with_name(trace.name.removesuffix(suffix) + SUFFIX)
    return trace.with_name(trace.name + SUFFIX)


def serialised(capture_file: CaptureFile) -> bytes:
    """Return a capture file's JSON."""
    document = document_of(capture_file)
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")


def packed(document: bytes) -> bytes:
    """Return a capture file's JSON gzipped; the same document gives the same bytes."""
    return gzip.compress(document, _COMPRESSION, mtime=0)


def write(capture_file: CaptureFile, path: Path) -> None:
    """Write a capture file: its final name is a whole file, or what it was before.

    Raises:
        CaptureFileError: It cannot be written.
    """
    data = packed(serialised(capture_file))
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("xb") as file:
            file.write(data)
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        why = printable((error.strerror or str(error)).lower())
        msg = (
            f"{printable(path.name)}: cannot be written ({why}); make room, or give another "
            "log directory"
        )
        raise CaptureFileError(msg) from error


def read(path: Path) -> CaptureFile | None:
    """Read a capture file.

    Returns:
        The capture file, or None where there is no such file.

    Raises:
        CaptureFileError: It is there but cannot be read: of another version, or damaged.
    """
    name = printable(path.name)
    try:
        data = _decompressed(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        why = printable((getattr(error, "strerror", None) or str(error)).lower())
        msg = f"{name}: cannot be opened or read ({why}); check the file and its permissions"
        raise CaptureFileError(msg) from error
    except TraceFormatError as error:
        msg = f"{name}: {error}"
        raise CaptureFileError(msg) from error
    with _no_collector():
        return _parsed(data, name)


def _parsed(data: bytes, name: str) -> CaptureFile:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:  # ValueError: no JSON, no UTF-8, a huge number
        msg = f"{name}: its content is not JSON; {_AGAIN}"
        raise CaptureFileError(msg) from error
    _check_version(document, name)
    try:
        return capture_file_of(document)
    except DamagedDocumentError as error:
        msg = f"{name}: it is damaged: {error}; {_AGAIN}"
        raise CaptureFileError(msg) from error


@contextmanager
def _no_collector() -> Iterator[None]:
    """Spare Python's garbage collector: it takes half the time, and a tree has no cycles."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _decompressed(path: Path) -> bytes:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        msg = f"this is not a file; {_AGAIN}"
        raise TraceFormatError(msg)
    if status.st_size == 0:
        msg = f"the file is empty; {_AGAIN}"
        raise TraceFormatError(msg)
    with path.open("rb") as file:
        return b"".join(inflate(file, status.st_size, max_bytes=MAX_BYTES))


def _check_version(document: Json, name: str) -> None:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        msg = f"{name}: this is not a capture file of traceanalyzer; {_AGAIN}"
        raise CaptureFileError(msg)
    version = document.get("version")
    if type(version) is not int or version != VERSION:
        stated = printable(json.dumps(version)[:20])
        msg = (
            f"{name}: its version is {stated}, and version {VERSION} is what can be read here; "
            "use the traceanalyzer that recorded it, or record again"
        )
        raise CaptureFileError(msg)

"""Writes and reads capture files: `HOST.placement.json.gz`, beside the trace."""

import gzip
import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Final

from traceanalyzer.capture_file.document import CaptureFile, CaptureNote, Json
from traceanalyzer.capture_file.encoding import (
    FORMAT,
    VERSION,
    DamagedDocumentError,
    capture_file_of,
    document_of,
)
from traceanalyzer.capture_file.function_records import Function
from traceanalyzer.errors import CaptureFileError, TraceFormatError
from traceanalyzer.format import counted, printable
from traceanalyzer.trace.limits import inflate
from traceanalyzer.whole_file import write_whole

SUFFIX: Final = ".placement.json.gz"
# What the builder writes is at most a fifth of this; see below.
MAX_BYTES: Final = 400_000_000
_TRACE_SUFFIXES: Final = (".xplane.pb", ".xplane.pb.gz")
_COMPRESSION: Final = 6
_AGAIN: Final = "run `traceanalyzer capture` again, or delete the file to use only the trace"


def path_beside(trace: Path) -> Path:
    """Return the path of a trace's capture file."""
    suffix = next((each for each in _TRACE_SUFFIXES if trace.name.endswith(each)), "")
    return trace.with_name(trace.name.removesuffix(suffix) + SUFFIX)


def serialised(capture_file: CaptureFile) -> bytes:
    """Return a capture file as JSON."""
    document = document_of(capture_file)
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")


def packed(document: bytes) -> bytes:
    """Compress a capture file's JSON with gzip, without a timestamp."""
    return gzip.compress(document, _COMPRESSION, mtime=0)


def write(capture_file: CaptureFile, path: Path) -> None:
    """Write a capture file atomically.

    Raises:
        CaptureFileError: The file cannot be written.
    """
    try:
        write_whole(path, packed(serialised(capture_file)))
    except OSError as error:
        why = printable((error.strerror or str(error)).lower())
        msg = (
            f"{printable(path.name)} cannot be written ({why}); free disk space, or use another "
            "log directory"
        )
        raise CaptureFileError(msg) from error


def read(path: Path) -> CaptureFile | None:
    """Read a capture file; return None if it does not exist.

    Raises:
        CaptureFileError: The file cannot be read, has another version, or is damaged.
    """
    try:
        return _read(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        why = printable((getattr(error, "strerror", None) or str(error)).lower())
        problem = f"cannot be opened or read ({why}); check the file and its permissions"
    except (TraceFormatError, CaptureFileError) as error:
        problem = str(error)
    except DamagedDocumentError as error:
        problem = f"the file is damaged: {error}; {_AGAIN}"
    msg = f"{printable(path.name)}: {problem}"
    raise CaptureFileError(msg)


def _read(path: Path) -> CaptureFile:
    status = path.stat()
    is_file = stat.S_ISREG(status.st_mode)
    if not is_file or status.st_size == 0:
        msg = f"{'the file is empty' if is_file else 'not a file'}; {_AGAIN}"
        raise CaptureFileError(msg)
    with path.open("rb") as file:
        data = b"".join(inflate(file, status.st_size, max_bytes=MAX_BYTES))
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:  # ValueError: no JSON, no UTF-8, a huge number
        msg = f"not JSON; {_AGAIN}"
        raise CaptureFileError(msg) from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        msg = f"not a traceanalyzer capture file; {_AGAIN}"
        raise CaptureFileError(msg)
    version: Json = document.get("version")
    if type(version) is not int or version != VERSION:
        stated = printable(json.dumps(version)[:20])
        msg = (
            f"format version {stated} is not supported (expected {VERSION}); use the version of "
            "traceanalyzer that recorded it, or record again"
        )
        raise CaptureFileError(msg)
    return capture_file_of(document)


# --- Its size -------------------------------------------------------------------------------------
#
# Loading JSON of this size takes two seconds.

MAX_JSON_BYTES: Final = 80_000_000


def bounded(whole: CaptureFile, *, max_json_bytes: int = MAX_JSON_BYTES) -> CaptureFile:
    """Leave out functions, largest first, above the size limit; add a note about them."""
    kept = whole
    while kept.functions and len(serialised(kept)) > max_json_bytes:
        by_size = sorted(kept.functions, key=_nodes)
        smaller = tuple(by_size[: len(by_size) // 2])
        larger = {each.name for each in by_size[len(smaller) :]}
        definitions = tuple(each for each in kept.definitions if each.name not in larger)
        kept = replace(kept, functions=smaller, definitions=definitions)
    number = len(whole.functions) - len(kept.functions)
    if not number:
        return whole
    graphs = f"the graphs of {counted(number, 'function')}"
    message = f"the capture file reached its size limit, so it leaves out {graphs}"
    note = CaptureNote(id="evidence_left_out", severity="warning", message=message)
    return replace(kept, notes=(*kept.notes, note), omitted={"functions": number})


def _nodes(function: Function) -> int:
    return sum(
        len(graph) for each in function.instances for graph in (each.input, *each.partitions)
    )

"""A session of TensorFlow's profiler: begun with the levels asked for, written to its place."""

from __future__ import annotations

import ctypes
import io
import os
import shutil
import time
from typing import (
    TYPE_CHECKING,
    Any,
    BinaryIO,
    Callable,
    Dict,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Tuple,
)

from .rpc import Levels, ProfilerService, Profiling, ServiceError, profile_request

if TYPE_CHECKING:
    from .journal import Journal
    from .settings import Settings

__all__ = [
    "Native",
    "Profiler",
    "ProfilerError",
    "Trace",
    "effective_levels",
    "native_profiler",
]

# The Python API honours ProfilerOptions in 2.12.1, 2.18.1 and 2.19.1, and ignores them in 2.20.0
# and 2.21.0 (tried with each: `session_manager.cc` complains of the type of every value).
_IGNORES_OPTIONS_SINCE = (2, 20)

_DEFAULTS = Levels()
_SESSION = "session"  # the service's name for it, and for a folder that we remove
_BEGIN_S = 30.0  # CUPTI may take seconds to load
_WRITE_S = 900.0
_LET_GO_S = 2.0

# XSpace.planes, XPlane.{id, name, stat_metadata, stats}; XStat.{metadata_id, bytes_value};
# XStatMetadata.name (tsl/profiler/protobuf/xplane.proto).
_PLANES, _PLANE_NAME, _STAT_METADATA, _STATS = 1, 2, 5, 6
_ENVIRONMENT = b"Task Environment"
_LONGEST_ENVIRONMENT = 1 << 20
_VARINT, _LENGTH = 0, 2
_FIXED = {1: 8, 5: 4}

class ProfilerError(Exception):
    """There is no session, or no trace; the message says why."""


class Native(NamedTuple):
    """What is used of TensorFlow.

    Attributes:
        version: Its version, as numbers.
        session: The class `ProfilerSession`, before anything of ours replaced it.
        start_server: Starts the profiler service on a port.
        is_on: Tells whether a profiler is active in this process.
    """

    version: Tuple[int, ...]
    session: Callable[[], Any]
    start_server: Callable[[int], None]
    is_on: Callable[[], bool]


def native_profiler() -> Native:
    """Return TensorFlow's own."""
    from tensorflow.python.framework import versions  # noqa: PLC0415 - the program's
    from tensorflow.python.profiler import trace  # noqa: PLC0415
    from tensorflow.python.profiler.internal import _pywrap_profiler  # noqa: PLC0415

    def is_on() -> bool:
        # A function in 2.21; before, a variable that the profiler sets.
        enabled = trace.enabled
        return bool(enabled() if callable(enabled) else enabled)

    numbers = [int(n) for n in versions.VERSION.split(".")[:2]]
    return Native(
        tuple(numbers), _pywrap_profiler.ProfilerSession, _pywrap_profiler.start_server, is_on
    )


class Trace(NamedTuple):
    """A trace that was written.

    Attributes:
        path: Its file.
        effective: The levels that were in force; None where nothing proves any.
        proof: `trace` where it says so itself, `version` where this TensorFlow is known to do as
            told on this way; None where there is no proof.
    """

    path: str
    effective: Optional[Levels]
    proof: Optional[str]


class Profiler:
    """TensorFlow's profiler with the levels asked for; one session at a time."""

    def __init__(self, settings: Settings, journal: Journal, native: Native) -> None:
        """Prepare; nothing is started."""
        self._settings = settings
        self._journal = journal
        self._native = native
        self._service: Optional[ProfilerService] = None
        self._profiling: Optional[Profiling] = None
        self._session: Any = None
        self._scratch = os.path.join(settings.logdir, f".traceanalyzer-{os.getpid()}")
        self.requested = Levels(
            settings.host_tracer_level,
            settings.python_tracer_level,
            settings.device_tracer_level,
        )
        self.method = "api"

    def start(self) -> None:
        """Begin a session; when this returns, the profiler records.

        Raises:
            ProfilerError: It does not.
        """
        ignores = self._native.version >= _IGNORES_OPTIONS_SINCE
        if not (ignores and self.requested != _DEFAULTS and self._start_by_service()):
            self._start_by_api()

    def stop(self, destination: str) -> Trace:
        """End the session and write its trace.

        Args:
            destination: File of the trace; its folder is made, and only a whole trace gets there.

        Raises:
            ProfilerError: There is no whole trace.
        """
        try:
            self._export()
            source = _only_trace(self._scratch)
            _check_whole(source)
            stated = effective_levels(source)
            os.makedirs(os.path.dirname(destination), exist_ok=True)
            os.replace(source, destination)
        except OSError as error:
            raise ProfilerError(error.strerror or str(error)) from error
        finally:
            self._clear()
        return self._judged(destination, stated)

    def discard(self) -> None:
        """End the session and write nothing."""
        if self._profiling is not None:
            self._profiling.cancel()
            self._await_end()
        self._session = None  # its destructor ends it
        self._clear()

    def abandon(self) -> None:
        """Leave the session alone: this process is a fork, which must not end its parent's."""
        if self._profiling is not None:
            self._profiling.abandon()
        if self._session is not None:
            # Its destructor would stop tracers (CUPTI's among them) that live in the parent.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._session))
        self._session = self._profiling = None

    def _start_by_service(self) -> bool:
        try:
            self._call_service()
        except (ServiceError, OSError) as error:
            self._journal.note(
                "profiler_options_ignored",
                "warning",
                f"TensorFlow {_dotted(self._native.version)} ignores the profiler's options, and "
                f"its profiler service failed ({error}): the trace has "
                f"{_in_words(_DEFAULTS)}, not {_in_words(self.requested)}",
            )
            return False
        return True

    def _call_service(self) -> None:
        if self._service is None:
            self._service = ProfilerService(self._native.start_server)
            if not (self._service.is_local or self._service.is_closed):
                self._journal.note(
                    "profiler_service_open",
                    "info",
                    "TensorFlow's profiler service, needed for the tracer level asked for, listened"
                    " on every address of this machine until the program ended",
                )
        request = profile_request(self.requested, self._scratch, _SESSION, self._settings.host)
        profiling = self._service.profile(request, _SESSION)
        profiling.wait_until(self._native.is_on, _BEGIN_S)
        self._profiling = profiling
        self.method = "server"

    def _start_by_api(self) -> None:
        session = self._native.session()
        # TensorFlow 2.20 and 2.21 complain on stderr of each option, whatever its value.
        options = {} if self.requested == _DEFAULTS else self.requested._asdict()
        try:
            session.start(self._scratch, options)
        except Exception as error:
            raise ProfilerError(f"{error}".partition("\n")[0][:300]) from error
        self._session = session
        self.method = "api"

    def _export(self) -> None:
        if self._profiling is not None:
            profiling, self._profiling = self._profiling, None
            try:
                profiling.stop(_WRITE_S)
            except ServiceError as error:
                raise ProfilerError(str(error)) from error
        elif self._session is not None:
            session, self._session = self._session, None
            try:
                session.export_to_tb()
            except Exception as error:
                raise ProfilerError(f"{error}".partition("\n")[0][:300]) from error
        else:
            message = "no session was begun"
            raise ProfilerError(message)

    def _await_end(self) -> None:
        """Wait until the service has let go of the profiler: the next session needs it."""
        end = time.monotonic() + _LET_GO_S
        while self._native.is_on() and time.monotonic() < end:
            time.sleep(0.001)

    def _clear(self) -> None:
        self._profiling = None
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _judged(self, path: str, stated: Optional[Levels]) -> Trace:
        if stated is not None:
            if stated != self.requested:
                self._journal.note(
                    "profiler_levels_differ",
                    "warning",
                    f"asked for {_in_words(self.requested)}, the trace was recorded with "
                    f"{_in_words(stated)}",
                )
            return Trace(path, stated, "trace")
        does_as_told = self.method == "server" or self._native.version < _IGNORES_OPTIONS_SINCE
        if does_as_told or self.requested == _DEFAULTS:
            return Trace(path, self.requested, "version")
        return Trace(path, None, None)


def _in_words(levels: Levels) -> str:
    return (
        f"host tracer level {levels.host_tracer_level}, Python {levels.python_tracer_level}, "
        f"device {levels.device_tracer_level}"
    )


def _dotted(version: Tuple[int, ...]) -> str:
    return ".".join(str(n) for n in version)


def _only_trace(folder: str) -> str:
    """Return the trace somewhere under a folder."""
    for parent, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".xplane.pb"):
                return os.path.join(parent, name)
    message = "TensorFlow wrote no trace"
    raise ProfilerError(message)


# ------------------------------------------------------------ the trace itself


def _check_whole(path: str) -> None:
    """Follow the lengths of an XSpace's fields to the end of its file.

    Raises:
        ProfilerError: They do not lead there: the disk was full, or the trace over 2 GiB, which
            TensorFlow writes as an empty file.
    """
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        reached = max((end for _, _, end in _fields(file, size)), default=0)
    if not size or reached != size:
        message = (
            f"TensorFlow wrote {size} bytes, which are not a whole trace: the disk is full, or the "
            "trace is over 2 GiB"
        )
        raise ProfilerError(message)


def effective_levels(path: str) -> Optional[Levels]:
    """Return the levels that a trace says were in force; None where it says nothing (2.12-2.20).

    TensorFlow 2.21 writes the ProfileOptions it used as a stat of the plane `Task Environment`.

    Raises:
        OSError: The file cannot be read.
    """
    with open(path, "rb") as file:
        for field, begin, end in _fields(file, os.path.getsize(path)):
            if field != _PLANES or end - begin > _LONGEST_ENVIRONMENT:
                continue
            file.seek(begin)
            plane = _Message(file.read(end - begin))
            if plane.first_bytes(_PLANE_NAME) == _ENVIRONMENT:
                return _levels_of(plane)
    return None


def _levels_of(plane: _Message) -> Optional[Levels]:
    names: Dict[int, bytes] = {}
    for entry in plane.all_bytes(_STAT_METADATA):  # map<int64, XStatMetadata>
        pair = _Message(entry)
        names[pair.first_number(1)] = _Message(pair.first_bytes(2)).first_bytes(2)
    for stat in map(_Message, plane.all_bytes(_STATS)):
        if names.get(stat.first_number(1)) == b"profile_options":
            options = _Message(stat.first_bytes(6))
            return Levels(
                host_tracer_level=options.first_number(2),
                device_tracer_level=options.first_number(3),
                python_tracer_level=options.first_number(4),
            )
    return None


class _Message:
    """The fields of a small protobuf message."""

    def __init__(self, data: bytes) -> None:
        found = _fields(io.BytesIO(data), len(data))
        self._fields = [(field, data[begin:end]) for field, begin, end in found]

    def all_bytes(self, field: int) -> List[bytes]:
        """Return the contents of each occurrence of a field."""
        return [value for number, value in self._fields if number == field]

    def first_bytes(self, field: int) -> bytes:
        """Return a field's contents, or nothing."""
        return next((value for number, value in self._fields if number == field), b"")

    def first_number(self, field: int) -> int:
        """Return a field's number, or 0."""
        return sum((byte & 0x7F) << 7 * place for place, byte in enumerate(self.first_bytes(field)))


def _fields(file: BinaryIO, size: int) -> Iterator[Tuple[int, int, int]]:
    """Yield each field of the message that a file holds: its number, and where its contents lie.

    A message that is cut short ends before or beyond `size`, and one that is none ends early.
    """
    position = 0
    while position < size:
        file.seek(position)
        head = file.read(20)  # a tag and a length, ten bytes each at most
        tag, at = _varint_at(head, 0)
        field, kind = tag >> 3, tag & 7
        begin, end = position + at, -1
        if kind == _VARINT:
            end = position + _varint_at(head, at)[1]
        elif kind == _LENGTH:
            length, after = _varint_at(head, at)
            begin = position + after
            end = begin + length
        elif kind in _FIXED:
            end = begin + _FIXED[kind]
        if not field or end <= position:
            return
        yield field, begin, end
        position = end


def _varint_at(data: bytes, at: int) -> Tuple[int, int]:
    """Return a number and the place after it."""
    value = 0
    for place in range(at, len(data)):
        value |= (data[place] & 0x7F) << 7 * (place - at)
        if data[place] < 0x80:  # noqa: PLR2004 - the last byte's high bit is clear
            return value, place + 1
    return value, len(data) + 1

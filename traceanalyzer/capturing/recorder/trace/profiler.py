"""A session of TensorFlow's profiler: begun with the requested levels, written to its place."""

from __future__ import annotations

import ctypes
import os
import shutil
import time
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from .service import Levels, ProfilerService, ServiceError

if TYPE_CHECKING:
    from ..journal import Journal
    from ..program import Settings

# The Python API honours ProfilerOptions in 2.12.1, 2.18.1 and 2.19.1, and ignores them in 2.20.0
# and 2.21.0 (tried with each).
_IGNORES_OPTIONS_SINCE = (2, 20)

_DEFAULTS = Levels()
_LET_GO_S = 2.0


class ProfilerError(Exception):
    """There is no session, or no trace; the message says why."""


class Native(NamedTuple):
    """What is used of TensorFlow."""

    version: tuple[int, ...]
    session: Callable[[], Any]  # the class `ProfilerSession`, before ours replaced it
    start_server: Callable[[int], None]  # starts the profiler service on a port
    is_on: Callable[[], bool]  # whether a profiler is active in this process


def native_profiler() -> Native:
    """Return TensorFlow's own."""
    from tensorflow.python.framework import versions
    from tensorflow.python.profiler import trace
    from tensorflow.python.profiler.internal import _pywrap_profiler

    def is_on() -> bool:
        # A function in 2.21; before, a variable that the profiler sets.
        enabled = trace.enabled
        return bool(enabled() if callable(enabled) else enabled)

    numbers = [int(n) for n in versions.VERSION.split(".")[:2]]
    return Native(
        tuple(numbers), _pywrap_profiler.ProfilerSession, _pywrap_profiler.start_server, is_on
    )


class Profiler:
    """TensorFlow's profiler with the requested levels; one session at a time."""

    def __init__(self, settings: Settings, journal: Journal, native: Native) -> None:
        self._settings = settings
        self._journal = journal
        self._native = native
        self._service: ProfilerService | None = None
        self._session: Any = None
        self._scratch = os.path.join(settings.logdir, f".traceanalyzer-{os.getpid()}")
        self.requested = Levels(
            settings.host_tracer_level, settings.python_tracer_level, settings.device_tracer_level
        )
        self.method = "api"  # or `server`: how the last session was begun

    def start(self) -> None:
        """Begin a session; when this returns, the profiler records."""
        ignores = self._native.version >= _IGNORES_OPTIONS_SINCE
        is_by_service = ignores and self.requested != _DEFAULTS and self._start_by_service()
        self.method = "server" if is_by_service else "api"
        if is_by_service:
            return
        session = self._native.session()
        # TensorFlow 2.20 and 2.21 complain on stderr of each option, whatever its value.
        options = {} if self.requested == _DEFAULTS else self.requested._asdict()
        try:
            session.start(self._scratch, options)
        except Exception as error:
            raise ProfilerError(f"{error}".partition("\n")[0][:300]) from error
        self._session = session

    def stop(self, destination: str) -> Levels | None:
        """End the session, write its trace, and return the levels in force, None if unknown.

        Where a trace states its levels (2.21), its reader knows.
        """
        try:
            self._export()
            os.makedirs(os.path.dirname(destination), exist_ok=True)
            os.replace(_only_trace(self._scratch), destination)
        except OSError as error:
            raise ProfilerError(error.strerror or str(error)) from error
        finally:
            self._clear()
        honours = self.method == "server" or self._native.version < _IGNORES_OPTIONS_SINCE
        return self.requested if honours or self.requested == _DEFAULTS else None

    def discard(self) -> None:
        """End the session and write nothing."""
        if self.method == "server" and self._service is not None:
            self._service.cancel()
            end_s = time.monotonic() + _LET_GO_S  # the next session needs the profiler
            while self._native.is_on() and time.monotonic() < end_s:
                time.sleep(0.001)
        self._session = None  # its destructor ends it
        self._clear()

    def abandon(self) -> None:
        """Leave the session alone: this process is a fork, which must not end its parent's."""
        if self._session is not None:
            # Its destructor would stop tracers (CUPTI's among them) that live in the parent.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._session))

    def _start_by_service(self) -> bool:
        try:
            if self._service is None:
                self._service = ProfilerService(self._native.start_server)
                if not self._service.is_local:
                    self._journal.note(
                        "profiler_service_open",
                        "info",
                        "TensorFlow's profiler service, needed for the requested tracer level, "
                        "listened on every address of this machine until the program ended",
                    )
            is_on, host = self._native.is_on, self._settings.host
            self._service.start(self.requested, self._scratch, host, is_on)
        except (ServiceError, ImportError, OSError) as error:
            version = ".".join(str(n) for n in self._native.version)
            self._journal.note(
                "profiler_options_ignored",
                "warning",
                f"TensorFlow {version} ignores the profiler's options, and its profiler service "
                f"failed ({error}): the trace has {_in_words(_DEFAULTS)}, not "
                f"{_in_words(self.requested)}",
            )
            return False
        return True

    def _export(self) -> None:
        session, self._session = self._session, None
        try:
            if self.method == "server" and self._service is not None:
                self._service.stop()
            else:
                session.export_to_tb()
        except Exception as error:
            raise ProfilerError(f"{error}".partition("\n")[0][:300]) from error

    def _clear(self) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)


def _in_words(levels: Levels) -> str:
    return (
        f"host tracer level {levels.host_tracer_level}, Python {levels.python_tracer_level}, "
        f"device {levels.device_tracer_level}"
    )


def _only_trace(folder: str) -> str:
    """Return the trace somewhere under a folder."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            if name.endswith(".xplane.pb") and os.path.getsize(path):
                return path
    message = "TensorFlow wrote no trace; it can write none of more than 2 GiB"
    raise ProfilerError(message)

"""Sessions of TensorFlow's profiler: ours, with the requested levels, and the program's own.

The Python API of TensorFlow 2.20 and 2.21 ignores its options (`session_manager.cc`): the levels
are always 2 for the host, 1 for devices and 0 for Python. TensorFlow 2.12, 2.18, and 2.19 respect
the options (all tested), and so does the gRPC service `tensorflow.ProfilerService`. For other
levels, the recorder starts this service in the program itself, and calls it over the loopback
device with grpcio, which TensorFlow requires.

The service cannot be stopped, and TensorFlow binds it to every address of the machine
(`profiler_server.cc`: `[::]:port`). Other machines could then profile the program, and write the
result wherever the user may write. So this module binds the socket to the loopback device.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import shutil
import socket
import sys
import time
from typing import Any, Callable, Iterator

from .hooks import JournalWriter, RecorderPart
from .program import Settings

_IGNORES_OPTIONS_SINCE = (2, 20)
_RELEASE_S = 2.0
_SERVICE = "/tensorflow.ProfilerService/"
_SESSION = "session"  # the service's name for it, and for a folder that is removed afterwards
_BEGIN_S = 30.0  # CUPTI may take seconds to load
_WRITE_S = 900.0
_ELEVEN_DAYS_MS = 10**9
_LEVEL = "host_tracer_level"
_DEFAULTS = {_LEVEL: 2, "python_tracer_level": 0, "device_tracer_level": 1}
_SO_BINDTODEVICE = 25  # asm-generic/socket.h; Python's `socket` does not name it everywhere


class ProfilerError(Exception):
    """Raised if the profiler did not start or wrote no trace; the message says why."""


def _is_on() -> bool:
    from tensorflow.python.profiler import trace

    # A function in 2.21; before, a variable that the profiler sets.
    return bool(trace.enabled() if callable(trace.enabled) else trace.enabled)


class Profiler:
    """Runs TensorFlow's profiler with the requested levels, one session at a time."""

    def __init__(self, settings: Settings, journal: JournalWriter) -> None:
        from tensorflow.python.framework import versions
        from tensorflow.python.profiler.internal import _pywrap_profiler

        self._host, self._scratch, self._journal = settings.host, settings.scratch, journal
        self._version = tuple(int(number) for number in versions.VERSION.split(".")[:2])
        self._make_session = _pywrap_profiler.ProfilerSession  # before ours replaces it
        self._start_server = _pywrap_profiler.start_server
        self._service: ProfilerService | None = None
        self._session: Any = None
        # As in `tf.profiler.experimental.ProfilerOptions`.
        self.requested = {**_DEFAULTS, _LEVEL: settings.host_tracer_level}
        self.method = "api"  # or `server`: how the last session was begun

    def start(self) -> None:
        """Begin a session, and return once the profiler is recording."""
        is_default = self.requested == _DEFAULTS
        ignores = self._version >= _IGNORES_OPTIONS_SINCE
        self.method = "server"
        if ignores and not is_default and self._start_by_service():
            return
        self.method = "api"
        session = self._make_session()
        # TensorFlow 2.20 and 2.21 complain on stderr of each option, whatever its value.
        options = {} if is_default else self.requested
        with _failing():
            session.start(self._scratch, options)
        self._session = session

    def stop(self, destination: str) -> None:
        """End the session and write its trace."""
        session, self._session = self._session, None
        try:
            with _failing():
                if session is not None:
                    session.export_to_tb()
                elif self._service is not None:
                    self._service.stop()
            os.makedirs(os.path.dirname(destination), exist_ok=True)
            os.replace(_only_trace(self._scratch), destination)
        except OSError as error:
            raise ProfilerError(error.strerror or str(error)) from error
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def discard(self) -> None:
        """End the session and write nothing."""
        if self._session is None and self._service is not None:
            self._service.cancel()
            end_s = time.monotonic() + _RELEASE_S  # the next session needs the profiler
            while _is_on() and time.monotonic() < end_s:
                time.sleep(0.001)
        self._session = None  # its destructor ends it
        shutil.rmtree(self._scratch, ignore_errors=True)

    def abandon(self) -> None:
        """Forget the session without ending it: in a fork, it belongs to the parent process."""
        if self._session is not None:
            # Its destructor would stop tracers (CUPTI's among them) that live in the parent.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._session))

    def _start_by_service(self) -> bool:
        note = self._journal.note
        try:
            self._service = self._service or ProfilerService(self._start_server)
            if not self._service.is_local:
                note(
                    "profiler_service_open",
                    "info",
                    "TensorFlow's profiler service, needed for the requested tracer level, "
                    "listened on all network interfaces until the program ended",
                )
            self._service.start(self.requested, self._scratch, self._host)
        except (ProfilerError, ImportError, OSError) as error:
            version = ".".join(map(str, self._version))
            note(
                "profiler_options_ignored",
                "warning",
                f"TensorFlow {version} ignores the profiler's options, and its profiler service "
                f"failed ({error}), so the trace has host tracer level "
                f"{_DEFAULTS[_LEVEL]}, not {self.requested[_LEVEL]}",
            )
            return False
        return True


@contextlib.contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise ProfilerError(f"{error}".partition("\n")[0][:300]) from error


def _only_trace(folder: str) -> str:
    pattern = os.path.join(glob.escape(folder), "**", "*.xplane.pb")
    found = [path for path in glob.glob(pattern, recursive=True) if os.path.getsize(path)]
    if found:
        return found[0]
    message = "TensorFlow wrote no trace; it cannot write traces larger than 2 GiB"
    raise ProfilerError(message)


class ProfilerService:
    """The profiler service in this process, and its current profile."""

    def __init__(self, start: Callable[[int], None]) -> None:
        """Start the service on a free port with `tf.profiler.experimental.server.start`."""
        self.is_local = True  # before Linux 5.7 only root may restrict it
        self._port = 0
        self._channel: Any = None
        self._profile: Any = None  # the running call
        known = {port for port, _ in _listeners()}
        start(0)
        for port, listener in _listeners():
            if port not in known:
                self._port = port
                try:
                    listener.setsockopt(socket.SOL_SOCKET, _SO_BINDTODEVICE, b"lo\0")
                except OSError:
                    self.is_local = False

    def start(self, levels: dict[str, int], folder: str, host: str) -> None:
        """Begin a profile, and return once the profiler is recording."""
        import grpc

        direct = (("grpc.enable_http_proxy", 0),)
        self._channel = grpc.insecure_channel(f"127.0.0.1:{self._port}", options=direct)
        request = _profile_request(levels, folder, host)
        profile = self._channel.unary_unary(_SERVICE + "Profile")
        self._profile = profile.future(request, wait_for_ready=True)
        end_s = time.monotonic() + _BEGIN_S
        while not _is_on():
            is_refused = self._profile.done()
            if is_refused or time.monotonic() > end_s:
                self.cancel()
                why = "refused" if is_refused else f"did not start within {_BEGIN_S:g} s"
                message = f"the profiler service {why}"
                raise ProfilerError(message)
            time.sleep(0.001)

    def stop(self) -> None:
        """End the profile, and wait until its file is written."""
        terminate = self._channel.unary_unary(_SERVICE + "Terminate")
        try:
            terminate(_field(1, _SESSION.encode()), timeout=_WRITE_S)
            self._profile.result(timeout=_WRITE_S)
        finally:
            self.cancel()

    def cancel(self) -> None:
        """End the profile without writing anything more.

        The service checks every millisecond whether the client has cancelled (`IsCancelled`).
        """
        self._profile.cancel()
        self._channel.close()


def _listeners() -> Iterator[tuple[int, socket.socket]]:
    """Yield the sockets of this process that listen to the network, each with its port."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name))) as each:
            is_listening = each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            if is_listening and each.family in (socket.AF_INET, socket.AF_INET6):
                yield each.getsockname()[1], each


def _profile_request(levels: dict[str, int], folder: str, host: str) -> bytes:
    """Encode a `ProfileRequest` for a profile that runs until it is terminated."""
    from tensorflow.tsl.profiler.protobuf.profiler_options_pb2 import ProfileOptions

    options = ProfileOptions(
        version=1,  # otherwise the service takes defaults
        include_dataset_ops=True,
        enable_hlo_proto=True,
        duration_ms=_ELEVEN_DAYS_MS,
        **levels,
    )
    # tensorflow/core/profiler/profiler_service.proto
    values = (options.SerializeToString(), os.fsencode(folder), _SESSION.encode(), host.encode())
    return b"".join(map(_field, (4, 5, 6, 7), values))


def _field(number: int, value: bytes) -> bytes:
    """Encode a protobuf field by hand: TensorFlow has no Python class for these messages."""
    length = len(value)  # of two bytes: protobuf also reads a small one from two
    return bytes((number << 3 | 2, length & 0x7F | 0x80, length >> 7)) + value


class ScriptSession:
    """A profiler session that the program itself started."""

    def __init__(self, logdir: Any) -> None:
        self.start_ns = time.time_ns()
        self._logdir = ""  # "" for none that is local
        with contextlib.suppress(TypeError):
            path = os.fspath(logdir)
            if isinstance(path, str) and path and "://" not in path:
                self._logdir = os.path.abspath(path)

    def trace(self) -> str | None:
        """Return the path of the trace that the session wrote, or None."""
        if not self._logdir:
            return None
        pattern = os.path.join(glob.escape(self._logdir), "plugins", "profile", "*", "*.xplane.pb")
        since = self.start_ns - 10**8  # the clock of files is coarser than ours
        found = [(os.stat(path).st_mtime_ns, path) for path in glob.glob(pattern)]
        return max((each for each in found if each[0] >= since), default=(0, None))[1]


class ProgramWatch(RecorderPart):
    """Watches for the first use of TensorFlow, and for the program's own profiler sessions."""

    def on_first_use(self, used: Callable[[], None]) -> None:
        """Call `used` once, just before TensorFlow creates its devices, or now if they exist.

        A profiler must not begin earlier: CUPTI initializes CUDA, and a CUDA_VISIBLE_DEVICES that
        the program sets after the import would have no effect.
        """
        from tensorflow.python import pywrap_tfe
        from tensorflow.python.client import pywrap_tf_session
        from tensorflow.python.eager import context

        waiting = [used]

        def first(*_: Any, **__: Any) -> None:
            while waiting:
                waiting.pop()()

        made = context._context
        if made is not None and made._context_handle is not None:
            first()
        else:
            self.before(pywrap_tfe, "TFE_NewContextOptions", first)
            self.before(pywrap_tf_session, "TF_NewSessionOptions", first)

    def on_script_session(
        self, begins: Callable[[ScriptSession], None], ends: Callable[[ScriptSession], None]
    ) -> None:
        """Call `begins` before the program's own profiler starts, and `ends` when it is deleted.

        Every use (`tf.profiler.experimental.start` and `Profile`, Keras' callback `TensorBoard`,
        `tf.summary.trace_on`) creates a `ProfilerSession`, and drops it when it has stopped.
        """
        from tensorflow.python.profiler.internal import _pywrap_profiler

        native: Any = _pywrap_profiler.ProfilerSession

        class ProfilerSession:
            def __init__(self) -> None:
                # `start(logdir, ...)` is C++; its caller has the argument of that name.
                self._script = ScriptSession(sys._getframe(1).f_locals.get("logdir"))
                begins(self._script)
                session = native()
                self.start = session.start
                self.stop = session.stop
                self.export_to_tb = session.export_to_tb

            def __del__(self) -> None:
                script = self.__dict__.pop("_script", None)
                self.__dict__.clear()  # ends the session if it was not stopped
                if script is not None:
                    ends(script)

        self.replace(_pywrap_profiler, "ProfilerSession", ProfilerSession)

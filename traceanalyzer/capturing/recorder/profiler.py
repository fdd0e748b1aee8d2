"""Sessions of TensorFlow's profiler: ours, with the requested levels, and the program's own.

TensorFlow 2.20 and 2.21 drop the options that are given to their Python API (2.12, 2.18 and 2.19
honour them; tried with each): the levels then are 2 for the host, 1 for devices and 0 for Python,
whatever was requested. `session_manager.cc` refuses every value, of whichever type. Their gRPC
service, `tensorflow.ProfilerService`, honours them. So for other levels the service is started in
the program itself and called over the loopback device, by grpcio, which TensorFlow requires.

The service cannot be stopped once started, and TensorFlow binds it to every address of the machine
(`profiler_server.cc`: `[::]:port`) with no setting for it. Since its socket is the process's own,
it is bound to the loopback device here: otherwise other machines could have the program profile
itself and write the result wherever its user may write.
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
from typing import TYPE_CHECKING, Any, Callable, Iterator, NamedTuple

from .hooks import Part

if TYPE_CHECKING:
    from .journal import Journal
    from .program import Settings

_IGNORES_OPTIONS_SINCE = (2, 20)
_LET_GO_S = 2.0
_SERVICE = "/tensorflow.ProfilerService/"
_SESSION = "session"  # the service's name for it, and for a folder that is removed afterwards
_BEGIN_S = 30.0  # CUPTI may take seconds to load
_WRITE_S = 900.0
_ELEVEN_DAYS_MS = 10**9
_SO_BINDTODEVICE = 25  # asm-generic/socket.h; Python's `socket` does not name it everywhere


class ProfilerError(Exception):
    """There is no session, or no trace; the message says why."""


class Levels(NamedTuple):
    """How much the profiler records, as in `tf.profiler.experimental.ProfilerOptions`."""

    host_tracer_level: int = 2
    python_tracer_level: int = 0
    device_tracer_level: int = 1

    def __str__(self) -> str:
        host, python, device = self
        return f"host tracer level {host}, Python {python}, device {device}"


_DEFAULTS = Levels()


def _is_on() -> bool:
    """Return whether a profiler is active in this process."""
    from tensorflow.python.profiler import trace

    # A function in 2.21; before, a variable that the profiler sets.
    return bool(trace.enabled() if callable(trace.enabled) else trace.enabled)


class Profiler:
    """TensorFlow's profiler with the requested levels; one session at a time."""

    def __init__(self, settings: Settings, journal: Journal) -> None:
        from tensorflow.python.framework import versions
        from tensorflow.python.profiler.internal import _pywrap_profiler

        self._host = settings.host
        self._scratch = settings.scratch
        self._journal = journal
        self._version = tuple(int(number) for number in versions.VERSION.split(".")[:2])
        self._make_session = _pywrap_profiler.ProfilerSession  # before ours replaces it
        self._start_server = _pywrap_profiler.start_server
        self._service: ProfilerService | None = None
        self._session: Any = None
        self.requested = Levels(
            settings.host_tracer_level, settings.python_tracer_level, settings.device_tracer_level
        )
        self.method = "api"  # or `server`: how the last session was begun

    def start(self) -> None:
        """Begin a session; when this returns, the profiler records."""
        is_default = self.requested == _DEFAULTS
        ignores = self._version >= _IGNORES_OPTIONS_SINCE
        if ignores and not is_default and self._start_by_service():
            self.method = "server"
            return
        self.method = "api"
        session = self._make_session()
        # TensorFlow 2.20 and 2.21 complain on stderr of each option, whatever its value.
        options = {} if is_default else self.requested._asdict()
        with _failing():
            session.start(self._scratch, options)
        self._session = session

    def stop(self, destination: str) -> None:
        """End the session and write its trace."""
        session, self._session = self._session, None
        try:
            with _failing():
                if self.method == "server" and self._service is not None:
                    self._service.stop()
                else:
                    session.export_to_tb()
            os.makedirs(os.path.dirname(destination), exist_ok=True)
            os.replace(_only_trace(self._scratch), destination)
        except OSError as error:
            raise ProfilerError(error.strerror or str(error)) from error
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def discard(self) -> None:
        """End the session and write nothing."""
        if self.method == "server" and self._service is not None:
            self._service.cancel()
            end_s = time.monotonic() + _LET_GO_S  # the next session needs the profiler
            while _is_on() and time.monotonic() < end_s:
                time.sleep(0.001)
        self._session = None  # its destructor ends it
        shutil.rmtree(self._scratch, ignore_errors=True)

    def abandon(self) -> None:
        """Leave the session alone: this process is a fork, which must not end its parent's."""
        if self._session is not None:
            # Its destructor would stop tracers (CUPTI's among them) that live in the parent.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._session))

    def _start_by_service(self) -> bool:
        try:
            if self._service is None:
                self._service = ProfilerService(self._start_server)
                if not self._service.is_local:
                    self._journal.note(
                        "profiler_service_open",
                        "info",
                        "TensorFlow's profiler service, needed for the requested tracer level, "
                        "listened on every address of this machine until the program ended",
                    )
            self._service.start(self.requested, self._scratch, self._host)
        except (ProfilerError, ImportError, OSError) as error:
            version = ".".join(map(str, self._version))
            self._journal.note(
                "profiler_options_ignored",
                "warning",
                f"TensorFlow {version} ignores the profiler's options, and its profiler service "
                f"failed ({error}): the trace has {_DEFAULTS}, not {self.requested}",
            )
            return False
        return True


@contextlib.contextmanager
def _failing() -> Iterator[None]:
    """Have errors of TensorFlow or grpcio be ours."""
    try:
        yield
    except Exception as error:
        raise ProfilerError(f"{error}".partition("\n")[0][:300]) from error


def _only_trace(folder: str) -> str:
    """Return the trace somewhere under a folder."""
    pattern = os.path.join(glob.escape(folder), "**", "*.xplane.pb")
    found = [path for path in glob.glob(pattern, recursive=True) if os.path.getsize(path)]
    if found:
        return found[0]
    message = "TensorFlow wrote no trace; it can write none of more than 2 GiB"
    raise ProfilerError(message)


class ProfilerService:
    """The profiler service in this process, and a profile that it may be making."""

    def __init__(self, start: Callable[[int], None]) -> None:
        """Start the service on a free port, by `tf.profiler.experimental.server.start`."""
        self.is_local = True  # before Linux 5.7 only root may demand that
        self._port = 0
        self._channel: Any = None
        self._profile: Any = None  # the call under way
        known = {port for port, _ in _listeners()}
        start(0)
        for port, listener in _listeners():
            if port not in known:
                self._port = port
                try:
                    listener.setsockopt(socket.SOL_SOCKET, _SO_BINDTODEVICE, b"lo\0")
                except OSError:
                    self.is_local = False

    def start(self, levels: Levels, folder: str, host: str) -> None:
        """Have the program profiled; when this returns, the profiler records."""
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
                why = "refused" if is_refused else f"did not begin within {_BEGIN_S:g} s"
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
        """End the profile, and have nothing written if that was not done.

        The service looks every millisecond whether its client is still there (`IsCancelled`).
        """
        self._profile.cancel()
        self._channel.close()


def _listeners() -> Iterator[tuple[int, socket.socket]]:
    """Walk this process's sockets that listen to the network, each with its port."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name))) as each:
            is_listening = each.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            if is_listening and each.family in (socket.AF_INET, socket.AF_INET6):
                yield each.getsockname()[1], each


def _profile_request(levels: Levels, folder: str, host: str) -> bytes:
    """Encode a `ProfileRequest` for a profile that runs until it is terminated."""
    # tensorflow/core/profiler/profiler_options.proto. With version 0 the service takes defaults.
    options = (
        _field(5, 1)  # version
        + _field(1, 1)  # include_dataset_ops
        + _field(2, levels.host_tracer_level)
        + _field(3, levels.device_tracer_level)
        + _field(4, levels.python_tracer_level)
        + _field(7, 1)  # enable_hlo_proto
        + _field(9, _ELEVEN_DAYS_MS)  # duration_ms; the request's own is ignored
    )
    # tensorflow/core/profiler/profiler_service.proto
    texts = (os.fsencode(folder), _SESSION.encode(), host.encode())
    return _field(1, _ELEVEN_DAYS_MS) + b"".join(map(_field, (4, 5, 6, 7), (options, *texts)))


def _field(number: int, value: Any) -> bytes:
    """Encode a field of a protobuf message."""
    if isinstance(value, bytes):
        return _varint(number << 3 | 2) + _varint(len(value)) + value
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:  # noqa: PLR2004
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class ScriptSession:
    """A session of the profiler that the program itself began."""

    def __init__(self, logdir: str | None) -> None:
        self.logdir = logdir
        self.start_ns = time.time_ns()

    def trace(self) -> str | None:
        """Return the file that it has written, if it has."""
        if not self.logdir or "://" in self.logdir:
            return None
        pattern = os.path.join(glob.escape(self.logdir), "plugins", "profile", "*", "*.xplane.pb")
        # The clock of files is coarser than ours.
        since = self.start_ns - 10**8
        found = [(os.stat(p).st_mtime_ns, p) for p in glob.glob(pattern)]
        return max((f for f in found if f[0] >= since), default=(0, None))[1]


class ProgramWatch(Part):
    """Replaces functions that the program calls, and reports the calls.

    No frame of ours is on the stack while TensorFlow works: a traceback of the program shows the
    program and TensorFlow.
    """

    def __init__(self) -> None:
        super().__init__()
        self._uses = Part()

    def uninstall(self) -> None:
        self._uses.uninstall()
        super().uninstall()

    def on_first_use(self, used: Callable[[], None]) -> None:
        """Call back, once, just before TensorFlow makes its devices; at once if it has.

        A profiler must not begin sooner: CUPTI initialises CUDA, which then no longer heeds the
        CUDA_VISIBLE_DEVICES that a program may set between import and first use.
        """
        from tensorflow.python import pywrap_tfe
        from tensorflow.python.client import pywrap_tf_session
        from tensorflow.python.eager import context

        def first(*_: Any, **__: Any) -> None:
            self._uses.uninstall()
            used()

        made = context._context
        if made is not None and made._context_handle is not None:
            used()
        else:
            self._uses.before(pywrap_tfe, "TFE_NewContextOptions", first)
            self._uses.before(pywrap_tf_session, "TF_NewSessionOptions", first)

    def on_script_session(
        self, begins: Callable[[ScriptSession], None], ends: Callable[[ScriptSession], None]
    ) -> None:
        """Call back before the program's own profiler begins, and when it is gone.

        All ways to it make an object of the class `ProfilerSession` just before they start it, and
        drop the object when they have stopped it: `tf.profiler.experimental.start`, its `Profile`,
        the callback `TensorBoard` of Keras, `tf.summary.trace_on`.
        """
        from tensorflow.python.profiler.internal import _pywrap_profiler

        native: Any = _pywrap_profiler.ProfilerSession

        class ProfilerSession:
            def __init__(self) -> None:
                # `start(logdir, ...)` is C++; its caller has the argument of that name.
                named = sys._getframe(1).f_locals.get("logdir")
                self._script = ScriptSession(_as_path(named))
                begins(self._script)
                session = native()
                self.start = session.start
                self.stop = session.stop
                self.export_to_tb = session.export_to_tb

            def __del__(self) -> None:
                script = self.__dict__.pop("_script", None)
                self.__dict__.clear()  # ends the session where it was not stopped
                if script is not None:
                    ends(script)

        self.replace(_pywrap_profiler, "ProfilerSession", ProfilerSession)


def _as_path(value: Any) -> str | None:
    try:
        path = os.fspath(value)
    except TypeError:
        return None
    return os.path.abspath(path) if isinstance(path, str) and path and "://" not in path else None

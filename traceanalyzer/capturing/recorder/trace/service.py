"""The profiler service of TensorFlow, asked from within the program that it profiles.

TensorFlow 2.20 and 2.21 drop the options that are given to their Python API (2.12, 2.18 and 2.19
honour them): the levels then are 2 for the host, 1 for devices and 0 for Python, whatever was
requested. `session_manager.cc` refuses every value, of whichever type. Their gRPC service,
`tensorflow.ProfilerService`, honours them. So for other levels the service is started in the
program itself and called over the loopback device, by grpcio, which TensorFlow requires.

The service cannot be stopped once started, and TensorFlow binds it to every address of the machine
(`profiler_server.cc`: `[::]:port`) with no setting for it. Since its socket is the process's own,
it is bound to the loopback device here: otherwise other machines could have the program profile
itself and write the result wherever its user may write.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import Any, Callable, Iterator, NamedTuple

_SERVICE = "/tensorflow.ProfilerService/"
_SESSION = "session"  # the service's name for it, and for a folder that is removed afterwards
_BEGIN_S = 30.0  # CUPTI may take seconds to load
_WRITE_S = 900.0
_ELEVEN_DAYS_MS = 10**9
_SO_BINDTODEVICE = 25  # asm-generic/socket.h; Python's `socket` does not name it everywhere


class ServiceError(Exception):
    """The profiler service did not do what it was asked."""


class Levels(NamedTuple):
    """How much the profiler records, as in `tf.profiler.experimental.ProfilerOptions`."""

    host_tracer_level: int = 2
    python_tracer_level: int = 0
    device_tracer_level: int = 1


class ProfilerService:
    """The profiler service in this process, and a profile that it may be making."""

    def __init__(self, start: Callable[[int], None]) -> None:
        """Start the service on a free port, by `tf.profiler.experimental.server.start`."""
        with _reserved_port() as self._port:
            start(self._port)
        self.is_local = _only_loopback(self._port)
        self._channel: Any = None
        self._profile: Any = None  # the call under way

    def start(self, levels: Levels, folder: str, host: str, is_on: Callable[[], bool]) -> None:
        """Have the program profiled; when this returns, the profiler records."""
        import grpc

        direct = (("grpc.enable_http_proxy", 0),)
        self._channel = grpc.insecure_channel(f"127.0.0.1:{self._port}", options=direct)
        request = _profile_request(levels, folder, host)
        profile = self._channel.unary_unary(_SERVICE + "Profile")
        self._profile = profile.future(request, wait_for_ready=True)
        end_s = time.monotonic() + _BEGIN_S
        while not is_on():
            if self._profile.done() or time.monotonic() > end_s:
                is_refused = self._profile.done()
                self.cancel()
                why = "refused" if is_refused else f"did not begin within {_BEGIN_S:g} s"
                message = f"the profiler service {why}"
                raise ServiceError(message)
            time.sleep(0.001)

    def stop(self) -> None:
        """End the profile, and wait until its file is written."""
        terminate = self._channel.unary_unary(_SERVICE + "Terminate")
        try:
            terminate(_field(1, _SESSION.encode()), timeout=_WRITE_S)
            self._profile.result(timeout=_WRITE_S)
        except Exception as error:  # of grpcio: it is not imported here
            raise ServiceError(f"{error}".partition("\n")[0][:300]) from error
        finally:
            self.cancel()

    def cancel(self) -> None:
        """End the profile, and have nothing written if that was not done.

        The service looks every millisecond whether its client is still there (`IsCancelled`).
        """
        self._profile.cancel()
        self._channel.close()


@contextlib.contextmanager
def _reserved_port() -> Iterator[int]:
    """Hold a free port that the service, which reuses ports, may still bind."""
    try:
        holder = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        address: tuple[str, int] = ("::", 0)
    except OSError:  # no IPv6 here
        holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        address = ("", 0)
    with holder:
        # gRPC sets this too: several sockets of one user may then bind a port.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(address)
        yield holder.getsockname()[1]


def _only_loopback(port: int) -> bool:
    """Have this process's listeners on a port take connections from the loopback device only.

    Return whether they do: before Linux 5.7 only root may demand that.
    """
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name))) as each:
            is_internet = each.family in (socket.AF_INET, socket.AF_INET6)
            if is_internet and each.getsockname()[1] == port:
                try:
                    each.setsockopt(socket.SOL_SOCKET, _SO_BINDTODEVICE, b"lo\0")
                    found.append(True)
                except OSError:
                    found.append(False)
    return bool(found) and all(found)


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
    return (
        _field(1, _ELEVEN_DAYS_MS)
        + _field(4, options)
        + _field(5, os.fsencode(folder))
        + _field(6, _SESSION.encode())
        + _field(7, host.encode())
    )


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

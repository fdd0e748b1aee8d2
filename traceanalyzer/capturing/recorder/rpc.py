"""The profiler service of TensorFlow, asked from within the program that it profiles.

TensorFlow 2.20 and 2.21 drop the options that are given to their Python API (2.12, 2.18 and 2.19
honour them): the levels then are 2 for the host, 1 for devices and 0 for Python, whatever was asked
for. Their gRPC service, `tensorflow.ProfilerService`, does as it is told. So the service is
started in the program itself and called over the loopback device.

The client speaks just as much of HTTP/2 (RFC 9113) and gRPC as two calls need. Not grpcio: the
user's environment may lack it, to import it takes a second, and it installs handlers that change
what `os.fork` does to the program.

The service cannot be stopped once started, and TensorFlow binds it to every address of the machine
(`profiler_server.cc`: `[::]:port`) with no setting for it. Since its socket is the process's own,
`ProfilerService` narrows it: bound to the loopback device at once, and made to drop every packet
while we have no reason to connect.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import struct
import threading
import time
from typing import Callable, Iterator, List, NamedTuple, Optional, Tuple

__all__ = ["Levels", "ProfilerService", "Profiling", "ServiceError", "profile_request"]

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

# Types of frames, and flags (RFC 9113, section 6).
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_ACK, _END_STREAM, _END_HEADERS = 0x1, 0x1, 0x4
_CANCEL = 8

_PROFILE, _TERMINATE = 1, 3  # the client's streams have odd numbers

_FOR_EVER_MS = 10**9  # eleven days
_ACCEPT_S = 5.0

# What Python's `socket` does not name everywhere (asm-generic/socket.h).
_SO_BINDTODEVICE = 25
_SO_ATTACH_FILTER, _SO_DETACH_FILTER = 26, 27
_LISTENING = "0A"


class ServiceError(Exception):
    """The profiler service did not do what it was asked."""


class Levels(NamedTuple):
    """How much the profiler records, as in `tf.profiler.experimental.ProfilerOptions`."""

    host_tracer_level: int = 2
    python_tracer_level: int = 0
    device_tracer_level: int = 1


# ------------------------------------------------------------------- protobuf


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def profile_request(levels: Levels, root: str, session: str, host: str) -> bytes:
    """Encode a `ProfileRequest` that runs until it is terminated.

    Args:
        levels: What to record.
        root: Folder in which the service makes the folder of the session.
        session: Name of the session, and of its folder.
        host: Name of the trace file, before `.xplane.pb`.
    """
    # tensorflow/core/profiler/profiler_options.proto. With version 0 the service takes defaults.
    options = b"".join(
        (
            _number(5, 1),  # version
            _number(1, 1),  # include_dataset_ops
            _number(2, levels.host_tracer_level),
            _number(3, levels.device_tracer_level),
            _number(4, levels.python_tracer_level),
            _number(7, 1),  # enable_hlo_proto
            _number(9, _FOR_EVER_MS),  # duration_ms; the request's own is ignored
        )
    )
    # tensorflow/core/profiler/profiler_service.proto
    return b"".join(
        (
            _number(1, _FOR_EVER_MS),
            _bytes(4, options),
            _bytes(5, os.fsencode(root)),
            _bytes(6, session.encode()),
            _bytes(7, host.encode()),
        )
    )


# --------------------------------------------------------------------- HTTP/2


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _header(name: bytes, value: bytes) -> bytes:
    """Encode a field as a literal without indexing, not Huffman coded (RFC 7541, 6.2.2)."""
    return b"".join((b"\0", _short(name), _short(value)))


def _short(text: bytes) -> bytes:
    if len(text) >= 0x7F:  # noqa: PLR2004 - one byte of length; ours are all shorter
        message = "a header is too long"
        raise ValueError(message)
    return bytes((len(text),)) + text


def _call(stream: int, method: bytes, message: bytes) -> bytes:
    """Encode a whole unary gRPC call: headers, and the message as the last data."""
    headers = b"".join(
        (
            _header(b":method", b"POST"),
            _header(b":scheme", b"http"),
            _header(b":path", b"/tensorflow.ProfilerService/" + method),
            _header(b":authority", b"localhost"),
            _header(b"te", b"trailers"),
            _header(b"content-type", b"application/grpc"),
            _header(b"user-agent", b"traceanalyzer"),
        )
    )
    data = struct.pack(">BI", 0, len(message)) + message
    return _frame(_HEADERS, _END_HEADERS, stream, headers) + _frame(
        _DATA, _END_STREAM, stream, data
    )


class Profiling:
    """A call of `Profile` under way: the program is being profiled until it is stopped."""

    def __init__(self, port: int, request: bytes, session: str, *, connect_s: float = 5.0) -> None:
        """Connect and call; return without waiting for the profiler to begin.

        Args:
            port: Where the service listens, on the loopback device.
            request: The encoded `ProfileRequest`.
            session: The session that it names.
            connect_s: Longest time to connect.

        Raises:
            OSError: The service cannot be reached.
        """
        self._session = session
        self._accepted = threading.Event()
        self._ended = threading.Event()
        self._failure: Optional[str] = None
        self._sending = threading.Lock()
        self._socket = socket.create_connection(("127.0.0.1", port), connect_s)
        try:
            self._socket.settimeout(None)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._send(_PREFACE + _frame(_SETTINGS, 0, 0) + _call(_PROFILE, b"Profile", request))
        except OSError:
            self._socket.close()
            raise
        thread = threading.Thread(target=self._listen, name="traceanalyzer-rpc", daemon=True)
        thread.start()

    def wait_for_service(self, limit_s: float) -> None:
        """Return when the service has taken the connection, or has not within the limit."""
        self._accepted.wait(limit_s)

    def wait_until(self, is_on: Callable[[], bool], limit_s: float) -> None:
        """Return when the profiler has begun.

        Raises:
            ServiceError: It has not within the limit, or the service refused.
        """
        end = time.monotonic() + limit_s
        pause = 0.0002
        while not is_on():
            if self._ended.is_set():
                message = self._failure or "the profiler service declined to profile"
                raise ServiceError(message)
            if time.monotonic() > end:
                self.cancel()
                message = f"the profiler service did not begin within {limit_s:g} s"
                raise ServiceError(message)
            time.sleep(pause)
            pause = min(pause * 2, 0.02)

    def stop(self, limit_s: float) -> None:
        """End the profile and wait until its file is written.

        Raises:
            ServiceError: The service is gone, or does not finish within the limit.
        """
        message = _bytes(1, self._session.encode())
        try:
            self._send(_call(_TERMINATE, b"Terminate", message))
        except OSError as error:
            self._close()
            raise ServiceError(str(error)) from error
        done = self._ended.wait(limit_s)
        self._close()
        if not done:
            text = f"the profiler service did not write its trace within {limit_s:g} s"
            raise ServiceError(text)
        if self._failure:
            raise ServiceError(self._failure)

    def cancel(self) -> None:
        """End the profile and have nothing written.

        The service looks every millisecond whether its client is still there, and then lets go of
        the profiler (`profiler_service_impl.cc`, `IsCancelled`).
        """
        with contextlib.suppress(OSError):
            self._send(_frame(_RST_STREAM, 0, _PROFILE, struct.pack(">I", _CANCEL)))
        self._close()

    def abandon(self) -> None:
        """Let go of the connection in a fork, which must not end what is its parent's."""
        self._socket.close()

    def _send(self, data: bytes) -> None:
        with self._sending:
            self._socket.sendall(data)

    def _close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _listen(self) -> None:
        try:
            while self._answer(*self._receive()):
                pass
        except (OSError, EOFError, ValueError) as error:
            self._failure = self._failure or f"the profiler service hung up ({error})"
        finally:
            self._ended.set()
            self._accepted.set()

    def _receive(self) -> Tuple[int, int, int, bytes]:
        head = self._exactly(9)
        size = int.from_bytes(head[:3], "big")
        stream = int.from_bytes(head[5:9], "big") & 0x7FFFFFFF
        return head[3], head[4], stream, self._exactly(size)

    def _exactly(self, count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            part = self._socket.recv(count - len(found))
            if not part:
                message = "end of stream"
                raise EOFError(message)
            found += part
        return bytes(found)

    def _answer(self, kind: int, flags: int, stream: int, payload: bytes) -> bool:
        """Do what a frame asks for; return whether the profile goes on."""
        self._accepted.set()
        if kind == _SETTINGS and not flags & _ACK:
            self._send(_frame(_SETTINGS, _ACK, 0))
        elif kind == _PING and not flags & _ACK:
            self._send(_frame(_PING, _ACK, 0, payload))
        elif kind == _DATA and payload:
            more = struct.pack(">I", len(payload))
            self._send(_frame(_WINDOW_UPDATE, 0, 0, more) + _frame(_WINDOW_UPDATE, 0, stream, more))
        elif kind == _GOAWAY:
            self._failure = "the profiler service is shutting down"
            return False
        elif kind == _RST_STREAM and stream == _PROFILE:
            self._failure = f"the profiler service gave up (error {payload.hex()})"
            return False
        # Trailers end a stream. Their status may be Huffman coded; whether the profile is good
        # is told by its file.
        return not (kind in (_DATA, _HEADERS) and flags & _END_STREAM and stream == _PROFILE)


# -------------------------------------------------------------------- service


class ProfilerService:
    """The profiler service in this process, closed to all but us."""

    def __init__(self, start: Callable[[int], None], *, attempts: int = 3) -> None:
        """Start the service on a free port.

        Args:
            start: `tf.profiler.experimental.server.start`.
            attempts: How many ports to try.

        Raises:
            ServiceError: It does not listen on any.
        """
        for _ in range(attempts):
            with _reserved_port() as port:
                start(port)
            with _listeners(port) as found:
                if not found:
                    continue
                self._port = port
                # Without both, other users of this machine, or other machines, could have the
                # program profile itself and write the result wherever its user may write.
                self.is_local = all([_only_loopback(s) for s in found])  # noqa: C419 - each of them
                self.is_closed = all([_drop_everything(s) for s in found])  # noqa: C419
                return
        message = "the profiler service found no free port"
        raise ServiceError(message)

    def profile(self, request: bytes, session: str) -> Profiling:
        """Call `Profile`.

        Raises:
            OSError: The service cannot be reached.
        """
        with _listeners(self._port) as found:
            for listener in found:
                with contextlib.suppress(OSError):
                    listener.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)
            try:
                profiling = Profiling(self._port, request, session)
                # Not before it is accepted: a connection takes on the filter of its listener.
                profiling.wait_for_service(_ACCEPT_S)
            finally:
                for listener in found:
                    _drop_everything(listener)
        return profiling


@contextlib.contextmanager
def _reserved_port() -> Iterator[int]:
    """Hold a free port that a service, which reuses ports, may still bind."""
    try:
        holder = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        address: Tuple[str, int] = ("::", 0)
    except OSError:  # no IPv6 here
        holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        address = ("", 0)
    with holder:
        # Linux, and gRPC there, lets several sockets of one user bind a port with this option: who
        # asks for any free port does not get ours meanwhile.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(address)
        yield holder.getsockname()[1]


@contextlib.contextmanager
def _listeners(port: int) -> Iterator[List[socket.socket]]:
    """Give this process's sockets that listen on a port: the proof that it has got it."""
    inodes = set()
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), open(f"/proc/self/net/{name}", encoding="ascii") as file:
            for line in file:
                fields = line.split()
                # sl, local address, remote address, state, ..., inode (proc(5))
                if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                    inodes.add(f"socket:[{fields[9]}]")
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}") in inodes:
                found.append(socket.socket(fileno=os.dup(int(name))))
    try:
        yield found
    finally:
        for listener in found:
            listener.close()  # the duplicate


def _only_loopback(listener: socket.socket) -> bool:
    """Have a socket take connections from the loopback device only; return whether it does."""
    try:
        listener.setsockopt(socket.SOL_SOCKET, _SO_BINDTODEVICE, b"lo\0")
    except OSError:  # before Linux 5.7 only root may
        return False
    return True


def _drop_everything(listener: socket.socket) -> bool:
    """Have a socket drop what arrives; connections that it has taken are not touched."""
    # struct sock_filter: one instruction, BPF_RET | BPF_K, "accept 0 bytes"; struct sock_fprog.
    program = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0), 8)
    filter_program = struct.pack("HP", 1, ctypes.addressof(program))
    try:
        listener.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, filter_program)
    except OSError:
        return False
    return True

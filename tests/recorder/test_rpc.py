"""The client of the profiler service, before a service that is one only as far as bytes go."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import TYPE_CHECKING

import pytest

from traceanalyzer.recorder.rpc import (
    Levels,
    ProfilerService,
    Profiling,
    ServiceError,
    profile_request,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK = 1, 1

Frame = tuple[int, int, int, bytes]


class Service:
    """Answers a connection frame by frame, as told."""

    def __init__(self, answers: dict[bytes, list[Frame]]) -> None:
        self._answers = answers  # by the last part of the path of a call
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.got: list[Frame] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._thread.join(10)
        self._listener.close()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection, connection.makefile("rb") as read, contextlib.suppress(OSError):
            assert read.read(24) == b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            connection.sendall(_bytes((SETTINGS, 0, 0, b"")))
            while head := read.read(9):
                size = int.from_bytes(head[:3], "big")
                stream = int.from_bytes(head[5:], "big")
                frame = head[3], head[4], stream, read.read(size)
                self.got.append(frame)
                for method, answers in self._answers.items():
                    if frame[0] == HEADERS and frame[3].find(method) >= 0:
                        for answer in answers:
                            connection.sendall(_bytes(answer))

    def calls(self) -> list[tuple[int, bytes]]:
        """The streams that calls came on, and their messages."""
        return [(f[2], f[3]) for f in self.got if f[0] == DATA]


def _bytes(frame: Frame) -> bytes:
    kind, flags, stream, payload = frame
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


@pytest.fixture
def service() -> Iterator[Callable[[dict[bytes, list[Frame]]], Service]]:
    made: list[Service] = []

    def make(answers: dict[bytes, list[Frame]]) -> Service:
        made.append(Service(answers))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_profiles_until_it_is_told_to_stop(
    service: Callable[[dict[bytes, list[Frame]]], Service],
) -> None:
    trailers = (HEADERS, END_STREAM, 1, b"\x88")
    ours = service(
        {
            b"/Profile": [(PING, 0, 0, b"12345678"), (DATA, 0, 1, b"\0\0\0\0\0")],
            b"/Terminate": [(HEADERS, END_STREAM, 3, b"\x88"), trailers],
        }
    )
    profiling = Profiling(ours.port, b"request", "session")
    profiling.wait_for_service(10)
    profiling.wait_until(lambda: True, 1)
    profiling.stop(10)
    ours.close()
    assert ours.calls() == [
        (1, b"\0\0\0\0\x07request"),
        (3, b"\0\0\0\0\x09\x0a\x07session"),
    ]
    assert (SETTINGS, ACK, 0, b"") in ours.got
    assert (PING, ACK, 0, b"12345678") in ours.got
    assert [f[2] for f in ours.got if f[0] == WINDOW_UPDATE] == [0, 1]


def test_headers_are_literals(service: Callable[[dict[bytes, list[Frame]]], Service]) -> None:
    ours = service({b"/Profile": [(GOAWAY, 0, 0, b"")]})
    profiling = Profiling(ours.port, b"", "session")
    with pytest.raises(ServiceError, match="shutting down"):
        profiling.wait_until(lambda: False, 10)
    profiling.cancel()
    ours.close()
    [block] = [f[3] for f in ours.got if f[0] == HEADERS]
    assert b"\0\x05:path\x23/tensorflow.ProfilerService/Profile" in block
    assert b"\0\x02te\x08trailers" in block


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((RST_STREAM, 0, 1, b"\0\0\0\x02"), "gave up"),
        ((HEADERS, END_STREAM, 1, b"\x88"), "declined"),
    ],
)
def test_tells_when_the_service_refuses(
    service: Callable[[dict[bytes, list[Frame]]], Service], answer: Frame, words: str
) -> None:
    profiling = Profiling(service({b"/Profile": [answer]}).port, b"", "session")
    with pytest.raises(ServiceError, match=words):
        profiling.wait_until(lambda: False, 10)
    profiling.cancel()


def test_does_not_wait_for_ever(
    service: Callable[[dict[bytes, list[Frame]]], Service],
) -> None:
    ours = service({})
    profiling = Profiling(ours.port, b"", "session")
    with pytest.raises(ServiceError, match=r"did not begin within 0\.05 s"):
        profiling.wait_until(lambda: False, 0.05)
    ours.close()
    assert (RST_STREAM, 0, 1, b"\0\0\0\x08") in ours.got


def test_does_not_wait_for_ever_for_the_trace(
    service: Callable[[dict[bytes, list[Frame]]], Service],
) -> None:
    profiling = Profiling(service({}).port, b"", "session")
    with pytest.raises(ServiceError, match="did not write its trace"):
        profiling.stop(0.05)


def test_the_request_holds_what_was_asked_for() -> None:
    request = profile_request(Levels(3, 1, 0), "/logs/é", "s", "host")
    options = b"\x28\x01\x08\x01\x10\x03\x18\x00\x20\x01\x38\x01\x48\x80\x94\xeb\xdc\x03"
    assert bytes((0x22, len(options))) + options in request
    assert b"\x2a\x08/logs/\xc3\xa9" in request
    assert request.endswith(b"\x32\x01s\x3a\x04host")


# ------------------------------------------------------------------ the service


@pytest.fixture
def listener() -> Iterator[list[socket.socket]]:
    found: list[socket.socket] = []
    yield found
    for each in found:
        each.close()


def start_on(found: list[socket.socket]) -> Callable[[int], None]:
    """Return a stand-in for `server.start`, which binds as gRPC does."""

    def start(port: int) -> None:
        found.append(socket.create_server(("127.0.0.1", port), reuse_port=True))

    return start


def test_the_service_takes_no_connection_but_ours(listener: list[socket.socket]) -> None:
    service = ProfilerService(start_on(listener))
    port = listener[0].getsockname()[1]
    assert service.is_closed
    with pytest.raises(TimeoutError):
        socket.create_connection(("127.0.0.1", port), 0.3)


def test_tries_another_port(listener: list[socket.socket]) -> None:
    start, ports = start_on(listener), []

    def start_late(port: int) -> None:
        ports.append(port)
        if len(ports) > 1:
            start(port)

    ProfilerService(start_late)
    assert len(ports) == 2


def test_gives_up_after_some_ports() -> None:
    with pytest.raises(ServiceError, match="no free port"):
        ProfilerService(lambda _: None)


def test_a_port_is_held_until_the_service_has_it() -> None:
    tried = []

    def start(port: int) -> None:
        tried.append(port)
        with pytest.raises(OSError, match="in use"):
            socket.create_server(("", port))

    with pytest.raises(ServiceError):
        ProfilerService(start, attempts=1)
    assert tried

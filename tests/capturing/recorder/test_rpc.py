"""The profiler service that the recorder starts in the program."""

from __future__ import annotations

import socket

import pytest

from traceanalyzer.capturing.recorder.rpc import ProfilerService, Profiling, ServiceError


def test_the_service_takes_no_connection_but_ours() -> None:
    listeners: list[socket.socket] = []

    def start(port: int) -> None:  # binds as gRPC does
        listeners.append(socket.create_server(("127.0.0.1", port), reuse_port=True))

    service = ProfilerService(start)
    with listeners[0] as listener:
        assert service.is_closed
        with pytest.raises(TimeoutError):
            socket.create_connection(("127.0.0.1", listener.getsockname()[1]), 0.3)


def test_a_service_that_does_not_answer_is_not_waited_for_for_ever() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ServiceError, match="did not begin"):
            Profiling(port, b"", "session").wait_until(lambda: False, 0.05)
        with pytest.raises(ServiceError, match="did not write its trace"):
            Profiling(port, b"", "session").stop(0.05)

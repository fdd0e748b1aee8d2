"""Which way to the levels asked for is taken, what is believed of them, and where a trace goes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from traceanalyzer.capturing.recorder import profiler
from traceanalyzer.capturing.recorder.journal import Journal
from traceanalyzer.capturing.recorder.profiler import (
    Native,
    Profiler,
    ProfilerError,
)
from traceanalyzer.capturing.recorder.rpc import Levels, ServiceError
from traceanalyzer.capturing.recorder.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Make = Callable[..., tuple[Profiler, Path, Path]]


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes((value & 127 | 128,))
        value >>= 7
    return out + bytes((value,))


def message(*fields: tuple[int, int | bytes]) -> bytes:
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


def trace(host: int | None = None) -> bytes:
    """A trace, with the options that it says were in force."""
    stats = []
    if host is not None:
        options = message((1, 1), (2, host), (3, 1), (5, 1), (9, 10**9))
        stats = [(6, message((1, 300), (6, options)))]
    environment = message(
        (1, 2),
        (2, b"Task Environment"),
        (5, message((1, 7), (2, message((1, 7), (2, b"profile_start_time"))))),
        (5, message((1, 300), (2, message((1, 300), (2, b"profile_options"))))),
        (6, message((1, 7), (3, 2**60))),
        *stats,
    )
    large = message((1, 1), (2, b"/host:CPU"), (3, b"x" * 2_000_000))
    return message((1, large), (1, environment), (4, b"host"))


class Session:
    """Stands in for TensorFlow's ProfilerSession; writes what it is told to."""

    content: bytes | None = trace()

    def start(self, logdir: str, options: dict[str, int]) -> None:
        self._logdir = logdir
        self.options = options

    def export_to_tb(self) -> None:
        if self.content is None:
            raise RuntimeError("no space left\nat all")  # noqa: EM101, TRY003
        folder = os.path.join(self._logdir, "plugins", "profile", "2026")  # noqa: PTH118
        os.makedirs(folder)  # noqa: PTH103
        with open(os.path.join(folder, "vm.xplane.pb"), "wb") as file:  # noqa: PTH118, PTH123
            file.write(self.content)


class Service:
    """Stands in for the profiler service and for a call of it."""

    content = trace(3)
    is_local = is_closed = True
    error: str | None = None

    def __init__(self, _: object) -> None:
        self.cancelled = False

    def profile(self, request: bytes, session: str) -> Service:
        self._folder = request.partition(b"\x2a")[2][1:].partition(b"\x32\x07")[0].decode()
        self._session = session
        return self

    def wait_until(self, _: object, __: float) -> None:
        if self.error:
            raise ServiceError(self.error)

    def stop(self, _: float) -> None:
        folder = os.path.join(self._folder, self._session)  # noqa: PTH118
        os.makedirs(folder)  # noqa: PTH103
        with open(os.path.join(folder, "host.xplane.pb"), "wb") as file:  # noqa: PTH118, PTH123
            file.write(self.content)

    def cancel(self) -> None:
        self.cancelled = True


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    def made(
        version: tuple[int, int],
        level: int = 3,
        session: type[Session] = Session,
        **of_service: object,
    ) -> tuple[Profiler, Path, Path]:
        monkeypatch.setattr(profiler, "ProfilerService", type("S", (Service,), of_service))
        logdir, journal = tmp_path / "logs", tmp_path / "journal"
        settings = Settings(str(tmp_path), str(logdir), "run", "host", host_tracer_level=level)
        native = Native(version, session, lambda _: None, lambda: False)
        return (
            Profiler(settings, Journal(str(journal)), native),
            logdir / "plugins" / "profile" / "run" / "host.xplane.pb",
            journal,
        )

    return made


@pytest.mark.parametrize(("version", "level"), [((2, 12), 3), ((2, 19), 1), ((2, 21), 2)])
def test_the_api_where_it_does_as_told(make: Make, version: tuple[int, int], level: int) -> None:
    ours, place, journal = make(version, level)
    ours.start()
    written = ours.stop(str(place))
    assert ours.method == "api"
    assert written == (str(place), Levels(level), "version")
    assert place.read_bytes() == Session.content
    assert os.listdir(place.parents[3]) == ["plugins"]  # noqa: PTH208
    assert not journal.exists()


@pytest.mark.parametrize("version", [(2, 20), (2, 21)])
def test_the_service_where_the_api_does_not(make: Make, version: tuple[int, int]) -> None:
    ours, place, journal = make(version)
    ours.start()
    assert ours.stop(str(place)) == (str(place), Levels(3), "trace")
    assert ours.method == "server"
    assert os.listdir(place.parents[3]) == ["plugins"]  # noqa: PTH208
    assert not journal.exists()


def test_no_level_is_claimed_that_was_not_in_force(make: Make) -> None:
    ours, place, journal = make((2, 21), error="it is tired")
    ours.start()
    assert ours.method == "api"
    assert ours.stop(str(place)).effective is None
    assert "its profiler service failed (it is tired)" in journal.read_text()
    assert "host tracer level 2" in journal.read_text()


def test_says_so_where_the_trace_says_otherwise(make: Make) -> None:
    ours, place, journal = make((2, 21), content=trace(2))
    ours.start()
    assert ours.stop(str(place)).effective == Levels(2)
    assert '"profiler_levels_differ"' in journal.read_text()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "0 bytes"),
        (trace()[:-3], "not a whole trace"),
        (trace()[:2000], "not a whole trace"),
        (b"\0\0\0\0", "not a whole trace"),
        (None, r"^no space left$"),
    ],
)
def test_only_a_whole_trace_gets_its_name(make: Make, content: bytes | None, words: str) -> None:
    ours, place, _ = make((2, 18), session=type("Short", (Session,), {"content": content}))
    ours.start()
    with pytest.raises(ProfilerError, match=words):
        ours.stop(str(place))
    assert not place.exists()
    assert not [p for p in place.parents[3].glob("*") if p.name != "plugins"]

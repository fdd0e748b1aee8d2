"""How the requested levels are reached, what is believed of them, and where a trace goes."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tensorflow.python.framework import versions
from tensorflow.python.profiler.internal import _pywrap_profiler

from traceanalyzer.capturing.recorder import profiler
from traceanalyzer.capturing.recorder.hooks import JournalWriter
from traceanalyzer.capturing.recorder.profiler import Profiler, ProfilerError
from traceanalyzer.capturing.recorder.program import Settings

Make = Callable[..., tuple[Profiler, Path, Path]]

TRACE = b"\x22\x04host"


class Session:
    """Stands in for TensorFlow's ProfilerSession; writes what it is told to."""

    content: bytes | None = TRACE

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
    """Stands in for the profiler service."""

    is_local = True
    error: str | None = None

    def __init__(self, _: object) -> None:
        pass

    def start(self, levels: dict[str, int], folder: str, host: str) -> None:
        if self.error:
            raise ProfilerError(self.error)
        assert levels["host_tracer_level"] == 3
        self._place = os.path.join(folder, "session", f"{host}.xplane.pb")  # noqa: PTH118

    def stop(self) -> None:
        os.makedirs(os.path.dirname(self._place))  # noqa: PTH103, PTH120
        with open(self._place, "wb") as file:  # noqa: PTH123
            file.write(TRACE)


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
        monkeypatch.setattr(versions, "VERSION", ".".join(map(str, version)))
        monkeypatch.setattr(_pywrap_profiler, "ProfilerSession", session)
        return (
            Profiler(settings, JournalWriter(str(journal))),
            logdir / "plugins" / "profile" / "run" / "host.xplane.pb",
            journal,
        )

    return made


@pytest.mark.parametrize(
    ("version", "level", "method"),
    [
        *(((2, 12), 3, "api"), ((2, 19), 1, "api"), ((2, 21), 2, "api")),
        *(((2, 20), 3, "server"), ((2, 21), 3, "server")),
    ],
)
def test_the_service_is_asked_where_the_api_ignores_levels(
    make: Make, version: tuple[int, int], level: int, method: str
) -> None:
    ours, place, journal = make(version, level)
    ours.start()
    ours.stop(str(place))
    assert ours.method == method
    assert place.read_bytes() == TRACE
    assert os.listdir(place.parents[3]) == ["plugins"]  # noqa: PTH208
    assert not journal.exists()


def test_levels_that_are_not_in_force_are_noted(make: Make) -> None:
    ours, _, journal = make((2, 21), error="it is tired")
    ours.start()
    assert ours.method == "api"
    assert "its profiler service failed (it is tired)" in journal.read_text()
    assert "host tracer level 2" in journal.read_text()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "wrote no trace"),  # it would be over 2 GiB
        (None, r"^no space left$"),
    ],
)
def test_what_is_no_trace_gets_no_name(make: Make, content: bytes | None, words: str) -> None:
    ours, place, _ = make((2, 18), session=type("Short", (Session,), {"content": content}))
    ours.start()
    with pytest.raises(ProfilerError, match=words):
        ours.stop(str(place))
    assert not place.exists()
    assert not [p for p in place.parents[3].glob("*") if p.name != "plugins"]

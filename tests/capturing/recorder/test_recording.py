"""Sessions as the window wants them, with stand-ins for TensorFlow and its profiler."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from traceanalyzer.capturing.recorder import recording
from traceanalyzer.capturing.recorder.hooks import Journal
from traceanalyzer.capturing.recorder.profiler import Levels, ProfilerError
from traceanalyzer.capturing.recorder.program import Settings
from traceanalyzer.capturing.recorder.recording import Recording

STEP = "__inference_step_12"


class Profiler:
    """Stands in for ours; notes what it is told."""

    told: ClassVar[list[str]] = []
    fails: ClassVar[set[str]] = set()
    requested = Levels(3)
    method = "server"

    def __init__(self, *_: object) -> None:
        pass

    def start(self) -> None:
        self._tell("start")

    def stop(self, destination: str) -> None:
        self._tell("stop")
        Path(destination).parent.mkdir(parents=True)
        Path(destination).write_bytes(b"trace")

    def discard(self) -> None:
        self._tell("discard")

    def _tell(self, word: str) -> None:
        self.told.append(word)
        if word in self.fails:
            raise ProfilerError("no room")  # noqa: EM101, TRY003


class Evidence:
    """Stands in for what is recorded beside the trace."""

    def __init__(self) -> None:
        self.eager_ops = self.signatures = 0
        self.told: list[int | str] = []

    def session_started(self, index: int) -> None:
        self.told.append(index)

    def session_stopped(self) -> None:
        self.told.append("stop")

    def count_eager_ops(self, *, on: bool) -> None:
        pass


class Watch:
    """Stands in for what watches the program; keeps what to call."""

    last: ClassVar[Watch]

    def __init__(self) -> None:
        type(self).last = self
        self.used: Callable[[], None] = lambda: None

    def on_first_use(self, used: Callable[[], None]) -> None:
        self.used = used

    def on_script_session(self, begins: object, ends: object) -> None: ...

    def uninstall(self) -> None:
        pass


class Case:
    """A recording, and what came of it."""

    def __init__(self, folder: Path, window: dict[str, Any]) -> None:
        self.logdir = folder / "logs"
        settings = Settings(str(folder), str(self.logdir), "run", "host", window=window)
        self._journal = folder / "journal.jsonl"
        self.evidence = Evidence()
        self.recording = Recording(settings, Journal(str(self._journal)))
        self.recording.begin(self.evidence)  # type: ignore[arg-type]
        self.watch = Watch.last

    def records(self, kind: str) -> list[dict[str, Any]]:
        if not self._journal.exists():
            return []
        found = map(json.loads, self._journal.read_text().splitlines())
        return [record for record in found if record["kind"] == kind]

    def sessions(self) -> list[tuple[str, str | None]]:
        """The method and the run of each."""
        return [
            (s["method"], s["trace"] and Path(s["trace"]).parent.name)
            for s in self.records("session")
        ]

    def call(self, times: int, name: str = STEP) -> None:
        for _ in range(times):
            self.recording.before_function_call(name)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Case]:
    monkeypatch.setattr(recording, "Profiler", Profiler)
    monkeypatch.setattr(recording, "ProgramWatch", Watch)
    monkeypatch.setattr(recording, "watch_signals", lambda: None)
    monkeypatch.setattr(os, "register_at_fork", lambda **_: None)
    monkeypatch.setattr(Profiler, "told", [])
    monkeypatch.setattr(Profiler, "fails", set())
    return lambda **window: Case(tmp_path, window or {"kind": "auto"})


def test_records_from_the_first_use_to_the_end(make: Callable[..., Case]) -> None:
    case = make()
    assert not Profiler.told  # CUDA must not be initialised before the program does
    case.watch.used()
    assert Profiler.told == ["start"]
    case.recording.finish("exit")
    case.recording.finish("exit")
    [session] = case.records("session")
    assert Path(session["trace"]) == case.logdir / "plugins/profile/run/host.xplane.pb"
    assert session["reason"] == (
        "from the program's first use of TensorFlow, until the program ended"
    )
    assert session["requested"] == Levels(3)._asdict()
    assert session["start_ns"] < session["stop_ns"]
    assert case.evidence.told == [0, "stop"]


@pytest.mark.parametrize(
    ("fails", "note", "sessions"),
    [({"start"}, "profiler_not_started", []), ({"stop"}, "trace_not_written", [("server", None)])],
)
def test_a_profiler_that_fails_costs_the_trace_alone(
    make: Callable[..., Case], fails: set[str], note: str, sessions: list[tuple[str, None]]
) -> None:
    Profiler.fails.update(fails)
    case = make()
    case.watch.used()
    case.call(3)
    case.recording.finish("exit")
    assert case.sessions() == sessions
    assert note in {n["id"] for n in case.records("note")}


def test_a_signal_waits_for_the_profiler(
    make: Callable[..., Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(_: object, destination: str) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        del destination

    monkeypatch.setattr(Profiler, "stop", stop)
    case = make(kind="steps", first=1, last=1)
    case.watch.used()
    case.call(1)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            case.call(1)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(case.records("session")) == 1

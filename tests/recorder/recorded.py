"""Runs programs under the recorder, with stand-ins for what starts and ends a recording."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import traceanalyzer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Recorder"]

_RECORDER = Path(traceanalyzer.__file__).with_name("recorder")
_LONGEST = 300.0  # seconds

_ENDING = """
import atexit

def watch_ending(finish):
    atexit.register(finish, "exit")
"""

# One session from the import of TensorFlow to the end, by the profiler's public interface.
_RECORDING = """
class Recording:
    def __init__(self, settings, journal, evidence):
        self._logdir, self._evidence = settings.logdir, evidence

    def begin(self):
        from tensorflow.profiler import experimental
        self._profiler = experimental
        experimental.start(self._logdir, experimental.ProfilerOptions(host_tracer_level=2))
        self._evidence.session_started(0)

    def before_function_call(self, name):
        pass

    def finish(self, reason):
        self._evidence.session_stopped()
        self._profiler.stop()
"""


@dataclass(frozen=True)
class Recorder:
    """A copy of the recorder, with stand-ins, and the folder that it writes to."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Recorder:
        """Copy the recorder to a folder, and write its settings."""
        found = cls(folder)
        copy = found.startup.parent
        shutil.copytree(_RECORDER, copy, ignore=shutil.ignore_patterns("__pycache__"))
        (copy / "ending.py").write_text(_ENDING)
        (copy / "recording.py").write_text(_RECORDING)
        found.work.mkdir()
        found.write_settings()
        return found

    @property
    def startup(self) -> Path:
        return self.folder / "recorder" / "startup"

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def logdir(self) -> Path:
        return self.folder / "logs"

    @property
    def settings(self) -> Path:
        return self.work / "settings.json"

    def write_settings(self, **changed: Any) -> None:  # noqa: ANN401 - JSON
        found = {
            "work": str(self.work),
            "logdir": str(self.logdir),
            "run": "run",
            "host": "host",
            "host_tracer_level": 2,
            "python_tracer_level": 0,
            "device_tracer_level": 1,
            "window": {"kind": "auto"},
            "python_path": None,
            "startup": str(self.startup),
            "quiet": {},
        }
        self.settings.write_text(json.dumps({**found, **changed}))

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the environment that the launcher makes of the user's."""
        path = variables.get("PYTHONPATH")
        return {
            **variables,
            "PYTHONPATH": f"{self.startup}{os.pathsep}{path}" if path else str(self.startup),
            "TRACEANALYZER_CAPTURE": str(self.settings),
        }

    def run(
        self,
        command: Sequence[str | Path],
        variables: Mapping[str, str],
        **options: Any,  # noqa: ANN401
    ) -> subprocess.CompletedProcess[str]:
        """Run a program under the recorder."""
        return run(command, self.environment(variables), **options)

    def journal(self) -> list[dict[str, Any]]:
        """Return what the recorder has written."""
        path = self.work / "journal.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def run(
    command: Sequence[str | Path],
    variables: Mapping[str, str],
    **options: Any,  # noqa: ANN401
) -> subprocess.CompletedProcess[str]:
    """Run a program with no more variables than those given."""
    return subprocess.run(
        command,
        env=dict(variables),
        capture_output=True,
        text=True,
        timeout=_LONGEST,
        check=False,
        **options,
    )

"""Runs programs under the recorder, with a stand-in for what starts and ends a recording."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import traceanalyzer
from traceanalyzer.capturing.recorder.program import Settings
from traceanalyzer.trace.discovery import find_runs
from traceanalyzer.trace.files import read_host

Record = dict[str, Any]
Place = tuple[str, int]

_RECORDER = Path(traceanalyzer.__file__).parent / "capturing" / "recorder"
_LONGEST = 300.0  # seconds
_EAGER = "EagerLocalExecute: "
_MARKER = "traceanalyzer:eager"
_OTHERS = {-1: "another", -2: "machine"}
_FIRST_OP = -3

# One session from the import of TensorFlow to the end, by the profiler's public interface.
_RECORDING = """
class Recording:
    def __init__(self, settings, journal):
        self._logdir = settings.logdir

    def begin(self, evidence):
        self._evidence = evidence
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
    """A copy of the recorder, with a stand-in, and the folder that it writes to."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> Recorder:
        """Copy the recorder to a folder, and write its settings."""
        found = cls(folder)
        copy = found.startup.parent
        shutil.copytree(_RECORDER, copy, ignore=shutil.ignore_patterns("__pycache__"))
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

    def write_settings(self) -> None:
        found = Settings(str(self.work), str(self.logdir), "run", "host")
        self.settings.write_text(json.dumps(found._asdict()))

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


@dataclass(frozen=True)
class Recorded:
    """What running the program has left."""

    recorder: Recorder
    output: str
    marks: dict[Place, str]

    @cached_property
    def journal(self) -> list[Record]:
        return self.recorder.journal()

    def of_kind(self, kind: str) -> list[Record]:
        return [record for record in self.journal if record["kind"] == kind]

    @cached_property
    def eager(self) -> Record:
        return self.of_kind("eager")[-1]

    def pool(self, kind: str) -> list[Any]:
        """Return the values that records refer to by their numbers: `frames` or `scopes`."""
        return [value for record in self.of_kind(kind) for value in record["values"]]

    def mark(self, number: int) -> str | None:
        """Return the mark of a line; of a line without one, file and line."""
        if number < 0:
            return None
        file, line = self.pool("frames")[number][:2]
        return self.marks.get((file, line), f"{file}:{line}")

    def at(self, mark: str) -> list[Record]:
        """Return the signatures of the eager ops that ran, of those made on a marked line."""
        ran = {s for sequence in self.sequences.values() for s in sequence}
        return [
            s
            for k, s in enumerate(self.eager["signatures"])
            if k in ran and self.mark(s["frame"]) == mark
        ]

    @cached_property
    def sequences(self) -> dict[int, list[int]]:
        """The numbers of each thread's signatures, in order."""
        return {
            s["thread"]: np.repeat(_unpacked(s["signatures"]), _unpacked(s["counts"])).tolist()
            for s in self.eager["sequences"]
        }

    def function(self, name: str) -> Record:
        """Return the last function whose name, without its number, is `name`."""
        return [f for f in self.of_kind("function") if re.sub(r"_\d+$", "", f["name"]) == name][-1]

    def node(self, function: str, node: str) -> tuple[str | None, list[tuple[str, str | None]]]:
        """Return a node's line, and its scopes: the devices asked for, and their lines."""
        found = self.function(function)
        k = found["nodes"].index(node)
        line = self.mark(found["frames"][k])
        return line, [(device, self.mark(at)) for device, at, _ in self.scopes(found["scopes"][k])]

    def scopes(self, numbers: list[int] | None) -> list[Any]:
        """Return scopes: the device asked for, the number of the line, and whose device it is."""
        return [self.pool("scopes")[number] for number in numbers or ()]

    def origin(self, number: int | None) -> str | None:
        """Return whose device a scope asks for: the name of a resource, an op, or what there is."""
        if number is None:
            return None
        if number >= 0:
            return str(self.eager["resources"][number]["name"])
        return _OTHERS.get(number) or str(self.eager["signatures"][_FIRST_OP - number]["op"])

    @cached_property
    def traced(self) -> dict[int, list[str | int]]:
        """The ops that ran on each thread, in order; of a marker the position that it tells."""
        (run,) = find_runs(str(self.recorder.logdir))
        trace = read_host(run.hosts[0])
        (plane,) = (p for p in trace.planes if p.name == "/host:CPU")
        names = [plane.names[k] for k in plane.name_of]
        threads, indices = (plane.integers(stat).values for stat in ("thread", "index"))
        found: dict[int, list[str | int]] = {}
        for begin, end in zip(
            plane.lines.event_begin[:-1], plane.lines.event_begin[1:], strict=True
        ):
            # The threads of a line ran one after the other: the system gives the number of a
            # thread that has ended to the next. What precedes all markers goes to the first.
            ops: list[str | int] = []
            is_marked = False
            for k in begin + np.argsort(plane.start_ps[begin:end], kind="stable"):
                if names[k] == _MARKER:
                    ops = found.setdefault(int(threads[k]), [] if is_marked else ops)
                    ops.append(int(indices[k]))
                    is_marked = True
                elif names[k].startswith(_EAGER):
                    ops.append(names[k].removeprefix(_EAGER))
        return found


def _unpacked(text: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(base64.b64decode(text), "<u4")

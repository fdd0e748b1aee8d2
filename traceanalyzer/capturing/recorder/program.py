"""Starts and stops the recorder in a program, according to its settings.

Most other modules are loaded only when TensorFlow is imported.
"""

from __future__ import annotations

import functools
import json
import os
import re
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from .ending import watch_ending
from .environment import environment_facts, variables, watch_gpu_variable
from .hooks import JournalWriter, watch_import

if TYPE_CHECKING:
    from .dumps import Dumps
    from .evidence import EvidenceRecorder
    from .recording import Recording

_OLDEST = (2, 12)
_NOTABLE_CPU_S = 1.0  # tools that libraries run when they are imported take less


class Settings(NamedTuple):
    """The recorder's options, and the paths that it writes to."""

    work: str  # folder of the journal and of TensorFlow's dumps
    logdir: str  # absolute; traces go to `plugins/profile/RUN/HOST.xplane.pb` in it
    run: str
    host: str
    host_tracer_level: int = 2
    # `{"kind": "auto"}`, `{"kind": "whole"}`, `{"kind": "steps", "first", "last"}` or
    # `{"kind": "time", "after_s", "for_s"}`
    window: dict[str, Any] = {"kind": "auto"}  # noqa: RUF012 - never changed

    @property
    def graphs(self) -> str:
        return os.path.join(self.work, "graphs")

    @property
    def journal(self) -> str:
        return os.path.join(self.work, "journal.jsonl")

    @property
    def scratch(self) -> str:
        """The folder for TensorFlow's traces. The recorder or `orchestrate` deletes it."""
        return os.path.join(self.logdir, f".traceanalyzer-{self.run}")


def prepare(path: str) -> None:
    """Read the settings, and record the program from its import of TensorFlow to its end."""
    with open(path, encoding="utf-8") as file:
        settings = Settings(**json.load(file))
    journal = JournalWriter(settings.journal)
    journal.write("started")
    attachment = Attachment(settings, journal)
    with journal.guard("the program"):
        watch_ending(attachment.finish)
        watch_gpu_variable(journal)
        watch_import("tensorflow", attachment.after_tensorflow, attachment.before_tensorflow)


class Attachment:
    """A program's recorder, created before TensorFlow is imported."""

    def __init__(self, settings: Settings, journal: JournalWriter) -> None:
        self._settings = settings
        self._journal = journal
        self._evidence: EvidenceRecorder | None = None
        self._recording: Recording | None = None
        self._variables: dict[str, str] = {}
        self._cpu_s_before = _cpu_s()

    @functools.cached_property
    def _dumps(self) -> Dumps:
        from .dumps import Dumps

        return Dumps(self._settings.graphs, self._journal)

    def before_tensorflow(self) -> None:
        """Request dumps of graphs; called before TensorFlow is imported."""
        with self._journal.guard("the program"):
            self._variables = variables()
            self._dumps.ask()

    def after_tensorflow(self) -> None:
        """Install the recorder and begin recording; called after TensorFlow is imported."""
        with self._journal.guard("the program"):
            self._attach()

    def finish(self, reason: str) -> None:
        """End the recording, and journal the remaining facts."""
        recording, self._recording = self._recording, None
        evidence, self._evidence = self._evidence, None
        guard = functools.partial(self._journal.guard, "the program")
        with guard():
            if recording is not None:
                recording.finish(reason)
        if evidence is not None:
            with guard():
                if reason == "exit":
                    from .errors import journal_fatal

                    journal_fatal(self._journal)
            with guard():
                evidence.finish()
            with guard():
                evidence.uninstall()
        _note_other_processes(self._journal, self._cpu_s_before)
        self._journal.write("finished", reason=reason)

    def _attach(self) -> None:
        import tensorflow as tf

        from .evidence import EvidenceRecorder
        from .recording import Recording

        journal = self._journal
        self._dumps.taken()
        journal.write("attached")
        found = re.match(r"(\d+)\.(\d+)", tf.__version__)
        version = tuple(map(int, found.groups())) if found else (0, 0)
        if version < _OLDEST:
            journal.note(
                "tensorflow_too_old",
                "warning",
                f"TensorFlow {tf.__version__} is too old: the recorder needs 2.12 or newer",
            )
            return
        if version == _OLDEST:
            journal.note(
                "graphs_left_out",
                "warning",
                "graphs are not recorded, because TensorFlow 2.12 does not dump them; use 2.13 or "
                "newer",
            )
        journal.write(
            "environment",
            variables=self._variables,
            started_ns=journal.started_ns,
            attached_ns=time.time_ns(),
            **environment_facts(),
        )
        recording = self._recording = Recording(self._settings, journal)
        self._evidence = EvidenceRecorder(journal, self._dumps, recording.before_function_call)
        self._evidence.install()
        recording.begin(self._evidence)


def _note_other_processes(journal: JournalWriter, before: tuple[float, float]) -> None:
    theirs, own = (now - then for now, then in zip(_cpu_s(), before))
    if theirs >= _NOTABLE_CPU_S:
        journal.note(
            "work_of_child_processes",
            "warning" if theirs >= own / 2 else "info",
            f"child processes used {theirs:,.1f} s of CPU time (the program itself: {own:,.1f} s) "
            "and were not recorded; to record their work, run it in the program's own process",
        )


def _cpu_s() -> tuple[float, float]:
    used = os.times()
    return used.children_user + used.children_system, used.user + used.system

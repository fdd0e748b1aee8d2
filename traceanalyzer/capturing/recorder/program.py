"""The recorder in one program: from before its first line, or the beginning of a block, to its end.

The rest of the recorder is loaded when TensorFlow is imported, and not before.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import re
import sys
import time
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from .ending import watch_ending
from .gpu_choices import watch_variable
from .hooks import watch_import
from .journal import Journal

if TYPE_CHECKING:
    from .dumps import Dumps
    from .evidence import Evidence
    from .recording import Recording

_OLDEST = (2, 12)
_HEADER = ("include", "tensorflow", "core", "public", "version.h")
# multiprocessing imports these when the first process is started so.
_STARTERS = ("multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver")
_WORTH_A_WORD_S = 1.0  # CPU time; tools that libraries call at their import take less


class Settings(NamedTuple):
    """What to record, and where to write it."""

    work: str  # folder of the journal and of TensorFlow's dumps
    logdir: str  # absolute; traces go to `plugins/profile/RUN/HOST.xplane.pb` in it
    run: str
    host: str
    host_tracer_level: int = 2
    python_tracer_level: int = 0
    device_tracer_level: int = 1
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
        """Folder that TensorFlow writes a trace to; `capturing.gathering` deletes it too."""
        return os.path.join(self.logdir, f".traceanalyzer-{self.run}")


def prepare(path: str) -> None:
    """Have the program recorded from where it imports TensorFlow to its end."""
    with open(path, encoding="utf-8") as file:
        settings = Settings(**json.load(file))
    journal = Journal(settings.journal)
    journal.write("started")
    attachment = Attachment.of_program = Attachment(settings, journal)
    try:
        watch_ending(attachment.finish)
        watch_variable(journal)
        os.register_at_fork(after_in_parent=functools.partial(_note_fork, journal))
        watch_import("tensorflow", attachment.after_tensorflow, attachment.before_tensorflow)
    except Exception as error:
        journal.failed("the program", error)


class Attachment:
    """The recorder in one program: made before TensorFlow is imported, if it ever is."""

    of_program: Attachment | None = None  # where the program is recorded from its first line

    def __init__(self, settings: Settings, journal: Journal) -> None:
        self._settings = settings
        self._journal = journal
        self._evidence: Evidence | None = None
        self._recording: Recording | None = None
        self._variables: dict[str, str] = {}

    @functools.cached_property
    def _dumps(self) -> Dumps:
        from .dumps import Dumps

        return Dumps(self._settings.graphs, self._journal)

    def before_tensorflow(self) -> None:
        """TensorFlow is about to be imported: ask it for its graphs."""
        self._try(self._ask)

    def after_tensorflow(self) -> None:
        """TensorFlow has been imported: put the recorder in place, and begin."""
        self._try(self._attach)

    def finish(self, reason: str) -> None:
        """End the recording; nothing more is noted after."""
        if self._recording is not None:
            self._try(self._recording.finish, reason)
        if self._evidence is not None:
            if reason == "exit":
                from .errors import journal_fatal

                self._try(journal_fatal, self._journal)
            self._try(self._evidence.finish)
            self._try(self._evidence.uninstall)
        self._evidence = None
        self._recording = None
        _note_other_processes(self._journal)
        self._journal.write("finished", reason=reason)

    def _ask(self) -> None:
        from .environment import variables

        self._variables = variables()
        self._dumps.ask(is_oldest=_is_oldest_installed())

    def _attach(self) -> None:
        import tensorflow as tf

        from .environment import environment_facts
        from .evidence import Evidence
        from .recording import Recording

        self._dumps.taken()
        self._journal.write("attached")
        version = re.match(r"(\d+)\.(\d+)", tf.__version__)
        if version is None or (int(version[1]), int(version[2])) < _OLDEST:
            self._journal.note(
                "tensorflow_too_old",
                "warning",
                f"TensorFlow {tf.__version__} is older than 2.12, the oldest that can be recorded",
            )
            return
        self._journal.write(
            "environment",
            variables=self._variables,
            started_ns=self._journal.started_ns,
            attached_ns=time.time_ns(),
            **environment_facts(),
        )
        self._recording = Recording(self._settings, self._journal)
        step = self._recording.before_step if self._settings.window["kind"] == "steps" else None
        call = self._recording.before_function_call
        self._evidence = Evidence(self._journal, self._dumps, call, step)
        self._evidence.install()
        self._recording.begin(self._evidence)

    def _try(self, step: Callable[..., None], *args: Any) -> None:
        try:
            step(*args)
        except Exception as error:
            self._journal.failed("the program", error)


def _is_oldest_installed() -> bool:
    """Return whether the TensorFlow that would be imported is 2.12, by a header that it has."""
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or not spec.origin:
        return False
    try:
        with open(os.path.join(os.path.dirname(spec.origin), *_HEADER), encoding="utf-8") as file:
            found = re.search(r"#define TF_MINOR_VERSION (\d+)", file.read())
    except OSError:
        return False
    return found is not None and int(found[1]) <= _OLDEST[1]


def _note_fork(journal: Journal) -> None:
    """Note, once, that the program was forked."""
    journal.note(
        "child_processes",
        "info",
        "the program started other processes of itself: what they did is not recorded",
    )


def _note_other_processes(journal: Journal) -> None:
    """Note the same of other ways to start processes, and how much of the work they did."""
    if any(name in sys.modules for name in _STARTERS):
        _note_fork(journal)
    theirs, own = (now - then for now, then in zip(_cpu_s(), _CPU_S_AT_FIRST))
    if theirs >= _WORTH_A_WORD_S:
        journal.note(
            "work_of_child_processes",
            "warning" if theirs >= own / 2 else "info",
            f"not recorded: processes that the program started, which used {theirs:,.1f} s of CPU "
            f"time (the program itself {own:,.1f} s); to record their work, do it in the program's "
            "own process",
        )


def _cpu_s() -> tuple[float, float]:
    """Return the CPU time of all processes that have ended, and of this one."""
    used = os.times()
    return used.children_user + used.children_system, used.user + used.system


_CPU_S_AT_FIRST = _cpu_s()

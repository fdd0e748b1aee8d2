"""The recorder in one program: from before its first line, or the beginning of a block, to its end.

The rest of the recorder is loaded when TensorFlow is imported, and not before.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import platform
import re
import time
from typing import TYPE_CHECKING, Any, Callable, NamedTuple

from .facts.gpu_choices import watch_variable
from .journal import Journal
from .process.children import note_fork, note_other_starts
from .process.ending import watch_ending
from .process.importing import watch_import

if TYPE_CHECKING:
    from .evidence import Evidence
    from .graphs.dumps import Dumps
    from .trace.recording import Recording

_OLDEST = (2, 12)
# Those that hold the package `tensorflow`; many others begin with its name (tensorflow_datasets).
_DISTRIBUTION = re.compile(
    r"(?:tensorflow(?:_(?:cpu|gpu|intel|macos|rocm|cpu_aws|aarch64))?|tf_nightly(?:_(?:cpu|gpu))?"
    r"|intel_tensorflow)-(\d+\.\d+[^-]*)\.(?:dist|egg)-info"
)


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
        """Folder for TensorFlow's dumps of graphs."""
        return os.path.join(self.work, "graphs")

    @property
    def journal(self) -> str:
        """File of the journal."""
        return os.path.join(self.work, "journal.jsonl")


def prepare(path: str) -> None:
    """Have the program recorded from where it imports TensorFlow to its end."""
    with open(path, encoding="utf-8") as file:
        found = json.load(file)
    settings = Settings(**{name: found[name] for name in Settings._fields})
    journal = Journal(settings.journal)
    journal.write("started", pid=os.getpid())
    attachment = Attachment.of_program = Attachment(settings, journal)
    try:
        watch_ending(attachment.finish)
        watch_variable(journal)
        os.register_at_fork(after_in_parent=functools.partial(note_fork, journal))
        watch_import("tensorflow", attachment.before_tensorflow, attachment.after_tensorflow)
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
        from .graphs.dumps import Dumps

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
                from .facts.errors import journal_fatal

                self._try(journal_fatal, self._journal)
            self._try(self._evidence.finish)
            self._try(self._evidence.uninstall)
        self._evidence = None
        self._recording = None
        note_other_starts(self._journal)
        self._journal.write("finished", reason=reason)

    def _ask(self) -> None:
        from .facts.environment import variables

        self._variables = variables()
        self._dumps.ask(_version_of(_installed_version()))

    def _attach(self) -> None:
        import tensorflow as tf

        from .evidence import Evidence
        from .facts.environment import environment_facts
        from .trace.recording import Recording

        self._dumps.taken()
        version = str(tf.__version__)
        self._journal.write(
            "attached",
            tf_version=version,
            python_version=platform.python_version(),
            pid=os.getpid(),
        )
        if _version_of(version) < _OLDEST:
            self._journal.note(
                "tensorflow_too_old",
                "warning",
                f"TensorFlow {version} is older than 2.12, the oldest that can be recorded",
            )
            return
        self._journal.write(
            "environment",
            variables=self._variables,
            started_ns=self._journal.started_ns,
            attached_ns=time.time_ns(),
            **environment_facts(),
        )
        step = self._before_step if self._settings.window["kind"] == "steps" else None
        self._evidence = Evidence(self._journal, self._dumps, self._before_call, step)
        self._recording = Recording(self._settings, self._journal, self._evidence)
        self._evidence.install()
        self._recording.begin()

    def _before_call(self, name: str) -> None:
        if self._recording is not None:
            self._recording.before_function_call(name)

    def _before_step(self) -> None:
        if self._recording is not None:
            self._recording.before_step()

    def _try(self, step: Callable[..., None], *args: Any) -> None:
        try:
            step(*args)
        except Exception as error:
            self._journal.failed("the program", error)


def _installed_version() -> str:
    """Return the version of the TensorFlow that would be imported, without importing it."""
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or not spec.origin:
        return ""
    beside = os.path.dirname(os.path.dirname(spec.origin))
    found = map(_DISTRIBUTION.fullmatch, os.listdir(beside))
    return max((match[1] for match in found if match), key=_version_of, default="")


def _version_of(text: str) -> tuple[int, ...]:
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else ()

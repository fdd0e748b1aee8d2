"""Puts the recorder in place around a program's TensorFlow, and takes it away again."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple

from .facts.environment import (
    StrategyRecorder,
    device_facts,
    environment_facts,
    foreign_kernels,
    variables,
)
from .facts.errors import ErrorRecorder, journal_fatal
from .facts.gpu_choices import GpuQuestions, VisibilityRecorder
from .facts.keras_models import KerasModels
from .graphs.dumps import Dumps
from .graphs.functions import FunctionRecorder
from .graphs.v1_sessions import Sessions
from .ops.eager import EagerRecorder
from .ops.frames import FramePool
from .ops.origins import Origins, StrategyDevices, TensorOrigins
from .ops.scopes import Scopes
from .ops.signatures import Signatures
from .trace.recording import Recording
from .trace.steps import StepMarks

if TYPE_CHECKING:
    from .journal import Journal
    from .settings import Settings

_OLDEST = (2, 12)
# Those that hold the package `tensorflow`; many others begin with its name (tensorflow_datasets).
_DISTRIBUTION = re.compile(
    r"(?:tensorflow(?:_(?:cpu|gpu|intel|macos|rocm|cpu_aws|aarch64))?|tf_nightly(?:_(?:cpu|gpu))?"
    r"|intel_tensorflow)-(\d+\.\d+[^-]*)\.(?:dist|egg)-info"
)


class Evidence:
    """All that is noted beside the trace."""

    def __init__(
        self,
        journal: Journal,
        dumps: Dumps,
        before_call: Callable[[str], None],
        *,
        counts_steps: bool,
    ) -> None:
        frames = FramePool()
        self._journal = journal
        self._dumps = dumps
        self._questions = GpuQuestions()
        self._origins = Origins(self._resource_of)
        self._scopes = Scopes(frames, self._origins)
        signatures = self._signatures = Signatures(journal, frames, self._scopes)
        self._before_call = before_call
        self._called_at: Dict[str, float] = {}  # when each function was first called
        self._steps = StepMarks(is_counted=counts_steps)
        self._models = KerasModels()
        self._sessions = Sessions(journal, dumps)
        self._functions = FunctionRecorder(
            journal, frames, dumps, self._defined, self._sessions.graphs
        )
        self._eager = EagerRecorder(
            journal,
            signatures,
            self._scopes,
            self._called,
            dumps.first_call,
            self._functions.repeated.stand_in,
        )
        self._errors = ErrorRecorder(journal)
        self._strategies = StrategyRecorder()
        self._visibility = VisibilityRecorder(journal)
        self._parts = (
            self._questions,
            self._origins,
            StrategyDevices(self._origins),
            self._scopes,
            TensorOrigins(self._scopes),
            self._eager,
            self._sessions,
            self._functions,
            self._errors,
            self._strategies,
            self._visibility,
            self._steps,
            self._models,
        )

    @property
    def eager_ops(self) -> int:
        """Eager ops and calls seen in the current session."""
        return self._eager.eager_ops

    @property
    def signatures(self) -> int:
        """Distinct eager ops and calls seen in the program."""
        return len(self._signatures.numbers)

    def install(self) -> None:
        """Put every part in place; one that fails is noted and left out."""
        for part in self._parts:
            try:
                part.install()
            except Exception as error:
                part.uninstall()
                self._journal.failed(type(part).__name__, error)

    def uninstall(self) -> None:
        """Take every part away."""
        for part in reversed(self._parts):
            part.uninstall()

    def session_started(self, index: int) -> None:
        """Note every eager op from now on."""
        self._eager.session_started(index)
        self._steps.session_started()

    def session_stopped(self) -> None:
        """Let eager ops run undisturbed, and journal those seen."""
        self._steps.session_stopped()
        self._eager.session_stopped()
        self._eager.write()

    def _resource_of(self, tensor: Any) -> int:
        return self._signatures.resource_of(tensor)

    def count_eager_ops(self, *, on: bool) -> None:
        """Count eager ops while no session records, or leave them alone."""
        self._eager.count(on=on)

    def _called(self, name: str, thread: int) -> None:
        """A function is about to be called, by the thread of that number."""
        self._steps.ended(name, thread)
        self._before_call(name)  # a session may begin or end with it
        self._steps.began(name, thread)
        self._called_at.setdefault(name, time.time())

    def _defined(self, name: str) -> None:
        """A function of that name was defined."""
        self._dumps.defined(name)
        self._models.defined(name)

    def finish(self) -> None:
        """Journal what is only known at the end."""
        self._sessions.finish()
        self._functions.finish()
        self._eager.write()
        self._journal.write(
            "devices",
            strategies=self._strategies.names,
            gpu_questions=list(zip(self._questions.places, self._questions.of_script)),
            keras_models=self._models.found,
            ended_ns=time.time_ns(),
            **device_facts(),
        )
        self._write_kernels()
        self._dumps.finish(self._functions.definitions, self._called_at)

    def _write_kernels(self) -> None:
        try:
            found = foreign_kernels({*self._functions.op_types, *self._signatures.op_types()})
            if found:
                self._journal.write("kernels", kernels=found)
        except Exception as error:
            self._journal.failed("the kernels of other libraries", error)


class Attachment:
    """The recorder in one program: made before TensorFlow is imported, if it ever is."""

    def __init__(self, settings: Settings, journal: Journal) -> None:
        self._settings = settings
        self._journal = journal
        self._dumps = Dumps(settings.graphs, journal)
        self._evidence: Optional[Evidence] = None
        self._recording: Optional[Recording] = None
        self._variables: Dict[str, str] = {}

    def before_tensorflow(self) -> None:
        """TensorFlow is about to be imported: ask it for its graphs."""
        self._variables = variables()
        try:
            self._dumps.ask(_version_of(_installed_version()))
        except Exception as error:
            self._journal.failed("TensorFlow's graphs", error)

    def after_tensorflow(self) -> None:
        """TensorFlow has been imported: put the recorder in place, and begin."""
        self._dumps.taken()
        try:
            self._attach()
        except Exception as error:
            self._journal.failed("the program", error)

    def _attach(self) -> None:
        import tensorflow as tf

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
        self._evidence = Evidence(
            self._journal,
            self._dumps,
            self._before_call,
            counts_steps=self._settings.window["kind"] == "steps",
        )
        self._recording = Recording(self._settings, self._journal, self._evidence)
        self._evidence.install()
        self._recording.begin()

    def _before_call(self, name: str) -> None:
        if self._recording is not None:
            self._recording.before_function_call(name)

    def finish(self, reason: str) -> None:
        """End the recording; nothing more is noted after."""
        if self._recording is not None:
            self._try(self._recording.finish, reason)
        if self._evidence is not None:
            if reason == "exit":
                self._try(journal_fatal, self._journal)
            self._try(self._evidence.finish)
            self._try(self._evidence.uninstall)
        self._evidence = None
        self._recording = None
        self._journal.write("finished", reason=reason)

    def _try(self, step: Callable[..., None], *args: Any) -> None:
        try:
            step(*args)
        except Exception as error:
            self._journal.failed("the end of the program", error)


def _installed_version() -> str:
    """Return the version of the TensorFlow that would be imported, without importing it."""
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or not spec.origin:
        return ""
    beside = os.path.dirname(os.path.dirname(spec.origin))
    found = map(_DISTRIBUTION.fullmatch, os.listdir(beside))
    return max((match[1] for match in found if match), key=_version_of, default="")


def _version_of(text: str) -> Tuple[int, ...]:
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else ()

"""Records the facts about a program that a trace lacks, and marks the program's steps."""

from __future__ import annotations

import time
from types import ModuleType
from typing import Any, Callable

from .dumps import Dumps
from .eager import EagerRecorder
from .environment import GpuChoices, device_facts, foreign_kernels
from .errors import ErrorRecorder
from .frames import FramePool, Pool
from .functions import FunctionRecorder
from .hooks import JournalWriter, RecorderPart, loaded
from .keras_layers import KerasLayers
from .keras_models import KerasModels
from .origins import Origins, Strategies
from .scopes import Scopes
from .signatures import Signatures
from .tracings import TracingRecorder
from .v1_sessions import Sessions
from .windows import label_of

_CALLS_BEFORE = 2


class EvidenceRecorder:
    def __init__(
        self, journal: JournalWriter, dumps: Dumps, before_call: Callable[[str], None]
    ) -> None:
        self._journal = journal
        self._dumps = dumps
        self._before_call = before_call
        frames, scope_pool = FramePool(journal), Pool(journal, "scopes")
        origins = Origins(frames)
        scopes = Scopes(frames, origins)
        self._signatures = Signatures(journal, frames, scopes, scope_pool)
        self._steps = StepMarks()
        self._models = KerasModels()
        self._layers = KerasLayers(journal, frames)
        self._choices = GpuChoices(journal)
        self._strategies = Strategies(origins)
        self._sessions = Sessions(journal, dumps, before_call)
        self._tracings = TracingRecorder(journal, frames)
        self._functions = FunctionRecorder(
            journal, frames, scope_pool, dumps, self._defined, self._tracings.traced
        )
        self._eager = EagerRecorder(
            journal, self._signatures, scopes, self._called, dumps, self._functions
        )
        self._parts: tuple[RecorderPart, ...] = (
            *(self._functions, self._choices, origins, self._strategies, scopes, self._eager),
            *(self._sessions, ErrorRecorder(journal), self._steps, self._models),
            self._layers,
        )

    @property
    def eager_ops(self) -> int:
        return self._eager.eager_ops

    @property
    def signatures(self) -> int:
        return len(self._signatures.numbers)

    def install(self) -> None:
        """Install every part; record and skip parts that fail."""
        for part in self._parts:
            try:
                part.install()
            except Exception as error:
                part.uninstall()
                self._journal.failed(type(part).__name__, error)

    def uninstall(self) -> None:
        for part in reversed(self._parts):
            part.uninstall()

    def session_started(self, index: int) -> None:
        self._eager.session_started(index)
        self._steps.session_started()

    def session_stopped(self) -> None:
        self._steps.session_stopped()
        self._eager.session_stopped()
        self._eager.write()

    def count_eager_ops(self, *, on: bool) -> None:
        self._eager.count(on=on)

    def finish(self) -> None:
        """Journal the facts that are only known at the end."""
        self._functions.finish(self._sessions.graphs)
        self._tracings.finish()
        self._eager.write()
        self._journal.write(
            "devices",
            strategies=self._strategies.names,
            gpu_questions=list(self._choices.questions),
            keras_models=self._models.found,
            keras_layers=self._layers.found(),
            ended_ns=time.time_ns(),
            **device_facts(),
        )
        with self._journal.guard("the kernels of other libraries"):
            found = foreign_kernels({*self._functions.op_types, *self._signatures.op_types()})
            if found:
                self._journal.write("kernels", kernels=found)
        self._dumps.finish()

    def _called(self, name: str, thread: int) -> None:
        self._steps.ended(name, thread)
        self._before_call(name)  # a session may begin or end with it
        self._steps.began(name, thread)

    def _defined(self, name: str) -> None:
        self._dumps.defined(name)
        self._models.defined(name)


class StepMarks(RecorderPart):
    """Marks steps in the trace of a program that does not mark them itself.

    A step lasts from one call of a function to the next. The function is the first one that a
    thread calls for the third time: TensorFlow traces a function in its first calls. The markers
    have TensorFlow's format, events with `step_num` and `_r` (python/profiler/trace.py), so
    TensorBoard shows step times, too.

    Programs mark steps with TensorFlow's class `Trace`. Every `tf.constant` also creates a `Trace`
    (framework/constant_op.py). Watching it takes 0.5 µs, so that module gets an unwatched copy.
    """

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[tuple[int, str], int] = {}
        self._leader: tuple[int, str] | None = None
        self._open: Any = None
        self._unfinished: list[Any] = []
        self._is_marking = False
        self._program_marks = False

    def install(self) -> None:
        """Start watching for steps that the program marks."""
        from tensorflow.python.framework import constant_op
        from tensorflow.python.profiler import trace

        unwatched = ModuleType(trace.__name__)
        unwatched.__dict__.update(vars(trace), Trace=type("Trace", (), dict(vars(trace.Trace))))
        if getattr(constant_op, "trace", None) is trace:
            self.replace(constant_op, "trace", unwatched)
        self.before(trace.Trace, "__init__", self._made)

    def session_started(self) -> None:
        """Start marking steps. Step numbers count calls from the beginning of the program."""
        self._leader = None
        self._is_marking = True

    def session_stopped(self) -> None:
        """Leave the last step unmarked, as its end is not recorded."""
        self._is_marking = False
        if self._open is not None:
            self._unfinished.append(self._open)  # TensorFlow would write it once it is freed
            self._open = None

    def ended(self, name: str, thread: int) -> None:
        """Mark the end of the current step if this call begins the next one."""
        if self._open is not None and self._leader == (thread, name):
            self._open.Stop()
            self._open = None

    def began(self, name: str, thread: int) -> None:
        """Mark the beginning of a step if this call begins one."""
        key = (thread, name)
        count = self._counts[key] = self._counts.get(key, 0) + 1
        if not self._is_marking or self._program_marks:
            return
        if self._leader is None and count > _CALLS_BEFORE:
            self._leader = key
        if key == self._leader:
            traceme = loaded("tensorflow.python.profiler.internal._pywrap_traceme").TraceMe
            self._open = traceme("step", step_num=count, _r=1, graph_type=label_of(name))

    def _made(self, *_: Any, **keywords: Any) -> None:
        """Record that the program or a Keras callback marks steps itself."""
        if "step_num" in keywords:
            self._program_marks = True

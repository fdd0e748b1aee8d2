"""All facts that are recorded about a program beside the trace."""

from __future__ import annotations

import time
from typing import Callable

from .dumps import Dumps
from .eager import EagerRecorder
from .environment import GpuChoices, device_facts, foreign_kernels
from .errors import ErrorRecorder
from .frames import FramePool
from .functions import FunctionRecorder
from .hooks import Journal, Part
from .keras_models import KerasModels
from .origins import Origins, Strategies
from .scopes import Scopes
from .signatures import Signatures
from .steps import StepMarks
from .v1_sessions import Sessions


class Evidence:
    def __init__(
        self,
        journal: Journal,
        dumps: Dumps,
        before_call: Callable[[str], None],
        before_step: Callable[[], None] | None,
    ) -> None:
        """Prepare; `before_step` is called when the program marks a step, unless it is None."""
        self._journal = journal
        self._dumps = dumps
        self._before_call = before_call
        self._called_at: dict[str, float] = {}  # when each function was first called
        frames = FramePool()
        origins = Origins(frames)
        scopes = Scopes(frames, origins)
        self._signatures = Signatures(journal, frames, scopes)
        self._steps = StepMarks(before_step)
        self._models = KerasModels()
        self._choices = GpuChoices(journal)
        self._strategies = Strategies(origins)
        self._sessions = Sessions(journal, dumps, before_call)
        self._functions = FunctionRecorder(journal, frames, dumps, self._defined)
        self._eager = EagerRecorder(
            journal, self._signatures, scopes, self._called, dumps, self._functions.stand_in
        )
        self._parts: tuple[Part, ...] = (
            *(self._choices, origins, self._strategies, scopes, self._eager, self._sessions),
            *(self._functions, ErrorRecorder(journal), self._steps, self._models),
        )

    @property
    def eager_ops(self) -> int:
        return self._eager.eager_ops

    @property
    def signatures(self) -> int:
        return len(self._signatures.numbers)

    def install(self) -> None:
        """Install every part; one that fails is noted and left out."""
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
        self._sessions.sort_dumps()
        self._functions.finish(self._sessions.graphs)
        self._eager.write()
        self._journal.write(
            "devices",
            strategies=self._strategies.names,
            gpu_questions=list(self._choices.questions.items()),
            keras_models=self._models.found,
            ended_ns=time.time_ns(),
            **device_facts(),
        )
        with self._journal.guard("the kernels of other libraries"):
            found = foreign_kernels({*self._functions.op_types, *self._signatures.op_types()})
            if found:
                self._journal.write("kernels", kernels=found)
        self._dumps.finish(self._functions.definitions, self._called_at)

    def _called(self, name: str, thread: int) -> None:
        """A function is about to be called, by the thread of that number."""
        self._steps.ended(name, thread)
        self._before_call(name)  # a session may begin or end with it
        self._steps.began(name, thread)
        self._called_at.setdefault(name, time.time())

    def _defined(self, name: str) -> None:
        self._dumps.defined(name)
        self._models.defined(name)

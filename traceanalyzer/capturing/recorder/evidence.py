"""All that is noted of a program beside the trace."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Callable

from .facts.environment import StrategyRecorder, device_facts, foreign_kernels
from .facts.errors import ErrorRecorder
from .facts.gpu_choices import GpuQuestions, VisibilityRecorder
from .facts.keras_models import KerasModels
from .graphs.functions import FunctionRecorder
from .graphs.v1_sessions import Sessions
from .ops.eager import EagerRecorder
from .ops.frames import FramePool
from .ops.origins import Origins, StrategyDevices, TensorOrigins
from .ops.scopes import Scopes
from .ops.signatures import Signatures
from .trace.steps import StepMarks

if TYPE_CHECKING:
    from .graphs.dumps import Dumps
    from .journal import Journal


class Evidence:
    """All that is noted beside the trace."""

    def __init__(
        self,
        journal: Journal,
        dumps: Dumps,
        before_call: Callable[[str], None],
        before_step: Callable[[], None] | None,
    ) -> None:
        """Prepare; `before_step` is called when the program marks a step, None if nobody counts."""
        frames = FramePool()
        self._journal = journal
        self._dumps = dumps
        self._questions = GpuQuestions()
        origins = Origins(lambda tensor: signatures.resource_of(tensor))  # noqa: PLW0108 - made below
        scopes = Scopes(frames, origins)
        signatures = self._signatures = Signatures(journal, frames, scopes)
        self._before_call = before_call
        self._called_at: dict[str, float] = {}  # when each function was first called
        self._steps = StepMarks(before_step)
        self._models = KerasModels()
        self._sessions = Sessions(journal, dumps, before_call)
        self._functions = FunctionRecorder(
            journal, frames, dumps, self._defined, self._sessions.graphs
        )
        self._eager = EagerRecorder(
            journal,
            signatures,
            scopes,
            self._called,
            dumps.first_call,
            self._functions.repeated.stand_in,
        )
        self._strategies = StrategyRecorder()
        self._parts = (
            self._questions,
            origins,
            StrategyDevices(origins),
            scopes,
            TensorOrigins(scopes),
            self._eager,
            self._sessions,
            self._functions,
            ErrorRecorder(journal),
            self._strategies,
            VisibilityRecorder(journal),
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

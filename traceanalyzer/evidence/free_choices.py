"""Why a captured program may do otherwise on a machine with a GPU: it chooses by what it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.evidence.differences import gpu_questions
from traceanalyzer.evidence.failure import went_on_after_error
from traceanalyzer.evidence.places import line_text
from traceanalyzer.placement.blockers import Hold
from traceanalyzer.wording import listed

if TYPE_CHECKING:
    from traceanalyzer.evidence.cases import Case
    from traceanalyzer.sidecar.document import Sidecar

__all__ = ["FreeChoices"]


class FreeChoices:
    """What a program may choose by the GPUs that there are."""

    def __init__(self, sidecar: Sidecar) -> None:
        """Take what was captured."""
        self._chosen = {sidecar.frames[at] for at in sidecar.chosen}
        self._of_program = ""
        if questions := gpu_questions(sidecar):
            self._of_program = (
                "the program may do otherwise where there is a GPU: it asks for one at "
                f"{listed(questions)}"
            )
        elif went_on_after_error(sidecar):
            self._of_program = "the program went on after an error that a GPU may spare it"

    def doubt(self, case: Case) -> str:
        """Return why an op may not be held this way on a machine with a GPU, or "".

        An op without any GPU kernel is held wherever it runs.
        """
        if case.held and all(held.hold is Hold.NO_KERNEL for held in case.held):
            return ""
        lines = [held.scope_frame for held in case.held if held.scope_frame in self._chosen]
        first = next((frame for frame in lines if frame is not None), None)
        if self._of_program or first is None:
            return self._of_program
        return f"the device is computed at {line_text(first)}, or a condition is around it"

"""Why a captured program may do otherwise on a machine with a GPU: it chooses by what it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.capture_file.frames import line_text
from traceanalyzer.format import listed
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.explanations import doubted
from traceanalyzer.placement.failure import went_on_after_error
from traceanalyzer.placement.gpu_differences import choice_by_gpus, gpu_questions
from traceanalyzer.placement.read_devices import unsure_scopes

if TYPE_CHECKING:
    from collections.abc import Collection

    from traceanalyzer.capture_file.document import CaptureFile, Frame
    from traceanalyzer.placement.explanations import PlacementExplanation

__all__ = ["FreeChoices"]


class FreeChoices:
    """What a program may choose by the GPUs that there are."""

    def __init__(self, capture_file: CaptureFile) -> None:
        """Take what was captured."""
        self._chosen = {capture_file.frames[at] for at in capture_file.chosen}
        self._unsure = {capture_file.frames[s.frame] for s in unsure_scopes(capture_file)}
        self._questions = gpu_questions(capture_file)
        self._went_on = went_on_after_error(capture_file)

    @property
    def is_any_unsure(self) -> bool:
        """Whether the program requests a device that may or may not be the CPU with a GPU."""
        return bool(self._unsure)

    def weighed(self, explanation: PlacementExplanation) -> PlacementExplanation:
        """Return the case of an op as sure as it is on a machine with a GPU.

        An op without any GPU kernel is held wherever it runs.
        """
        if explanation.blockers and all(
            blocker.kind is BlockerKind.NO_KERNEL for blocker in explanation.blockers
        ):
            return explanation
        at = _line(explanation, self._chosen)
        if at and self._questions:
            return doubted(explanation, choice_by_gpus(self._questions, [at]), "possible")
        if self._questions:
            return doubted(
                explanation,
                "the program may do otherwise where there is a GPU: it asks for one at "
                f"{listed(self._questions)}",
            )
        if self._went_on:
            return doubted(
                explanation, "the program went on after an error that a GPU may spare it"
            )
        if at:
            return doubted(
                explanation, f"the device is computed at {at}, or a condition is around it"
            )
        return explanation

    def why_unsure(self, explanation: PlacementExplanation) -> str:
        """Return why an op may be on the CPU that is expected on a GPU.

        Args:
            explanation: Its case if every device of which this is unsure is the CPU.
        """
        if at := _line(explanation, self._unsure & self._chosen):
            return choice_by_gpus(self._questions, [at])
        at = _line(explanation, self._unsure) or "a line that was not recorded"
        return (
            f"{at} requests the device of a tensor, and the capture does not tell where that "
            "tensor would be"
        )


def _line(explanation: PlacementExplanation, frames: Collection[Frame]) -> str:
    """Return the first line that requests the device of a case, of some lines; "" for none."""
    found = (
        blocker.scope_frame for blocker in explanation.blockers if blocker.scope_frame in frames
    )
    return next((line_text(frame) for frame in found if frame is not None), "")

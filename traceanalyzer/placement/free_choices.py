"""Why a captured program may request other devices on a machine with a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.capture_file.frames import line_text
from traceanalyzer.format import listed
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.explanations import doubted
from traceanalyzer.placement.failure import went_on_after_error
from traceanalyzer.placement.gpu_differences import choice_by_gpus, gpu_questions
from traceanalyzer.placement.scopes import unsure_scopes

if TYPE_CHECKING:
    from collections.abc import Collection

    from traceanalyzer.capture_file.document import CaptureFile, Frame
    from traceanalyzer.placement.explanations import PlacementExplanation


class FreeChoices:
    """Devices that a program may choose by the GPUs there are."""

    def __init__(self, capture_file: CaptureFile) -> None:
        self._chosen = {capture_file.frames[at] for at in capture_file.chosen}
        self._unsure = {capture_file.frames[s.frame] for s in unsure_scopes(capture_file)}
        self._questions = gpu_questions(capture_file)
        self._went_on = went_on_after_error(capture_file)

    @property
    def is_any_unsure(self) -> bool:
        """Whether the program requests a device that may or may not be the CPU with a GPU."""
        return bool(self._unsure)

    def weighed(self, explanation: PlacementExplanation) -> PlacementExplanation:
        """Return an explanation with its certainty on a machine with a GPU.

        An op without a GPU kernel is on the CPU there too.
        """
        kinds = {blocker.kind for blocker in explanation.blockers}
        if kinds == {BlockerKind.NO_KERNEL}:
            return explanation
        at = _line(explanation, self._chosen)
        if at and self._questions:
            return doubted(explanation, choice_by_gpus(self._questions, [at]), "possible")
        if self._questions:
            doubt = f"the program asks for a GPU at {listed(self._questions)} and may act on it"
        elif self._went_on:
            doubt = "the program continued after an error that may not occur with a GPU"
        elif at:
            doubt = f"the device at {at} is computed or conditional"
        else:
            return explanation
        return doubted(explanation, doubt)

    def why_unsure(self, explanation: PlacementExplanation) -> str:
        """Return why an op may be on the CPU that is expected on a GPU.

        The explanation is that of the op if every unsure device is the CPU.
        """
        if at := _line(explanation, self._unsure & self._chosen):
            return choice_by_gpus(self._questions, [at])
        at = _line(explanation, self._unsure) or "a line that was not recorded"
        whose = "tensor"
        if at.startswith("importer.py"):
            whose = "node of the graph that is imported"
        return f"{at} requests the device of a {whose}, and that device is unknown"


def _line(explanation: PlacementExplanation, frames: Collection[Frame]) -> str:
    """Return the first of some lines that requests the device; "" for none."""
    found = (b.scope_frame for b in explanation.blockers if b.scope_frame in frames)
    return next((line_text(frame) for frame in found if frame is not None), "")

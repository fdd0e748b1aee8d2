"""Finds what a captured program may do differently on a machine with a GPU."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PureWindowsPath
from typing import Final, Literal

from traceanalyzer.capture_file.document import CaptureFile, CaughtError, Frame, line_text
from traceanalyzer.capture_file.visibility import (
    obstacles,
    only_some_sessions_have_no_gpu,
    ran_in_sessions_alone,
)
from traceanalyzer.format import listed, series
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import machine_of
from traceanalyzer.placement.explanations import PlacementExplanation, doubted
from traceanalyzer.placement.keras import TEXTS, Keras, noted, strategies
from traceanalyzer.placement.scopes import unsure_scopes

_TEXTS: Final = TEXTS["on_a_gpu"]
_MOST_LINES: Final = 3  # in one sentence


def differences(capture_file: CaptureFile) -> Iterator[str]:
    """Yield sentences that describe what the program may do differently with a GPU."""
    if failed := failure(capture_file):
        yield _TEXTS["failed"].format(at=f" at {failed.at}" if failed.at else "")
    yield from Keras(capture_file).differences()
    questions = _gpu_questions(capture_file)
    chosen = sorted(capture_file.chosen)[:_MOST_LINES]
    requests = [line_text(capture_file.frames[at]) for at in chosen]
    if questions and requests:
        yield f"T{_choice_by_gpus(questions, requests)[1:]}."
    elif questions:
        verb = "queries" if len(questions) == 1 else "query"
        yield _TEXTS["asks"].format(questions=listed(questions), verb=verb)
    elif requests:
        yield _TEXTS["computed"].format(requests=listed(requests))
    if only_some_sessions_have_no_gpu(capture_file):
        yield _TEXTS["sessions"]
    if by_gpus := _strategies_by_gpus(capture_file):
        yield _TEXTS["strategies"].format(strategies=listed(by_gpus))


def _choice_by_gpus(questions: Sequence[str], requests: Sequence[str]) -> str:
    lines = listed(questions[:_MOST_LINES])
    return _TEXTS["choice"].format(questions=lines, requests=listed(requests))


def _gpu_questions(capture_file: CaptureFile) -> list[str]:
    """Return the lines, such as `train.py:3`, where the program queries the machine's GPUs."""
    return [
        f"{PureWindowsPath(str(place[0])).name}:{place[-1]}"
        for place in noted(capture_file, "gpu_questions")
        if place and isinstance(place, list)
    ]


def _strategies_by_gpus(capture_file: CaptureFile) -> list[str]:
    """Return the names of the program's distribution strategies that depend on available GPUs."""
    return [name for name in strategies(capture_file) if not name.startswith("OneDevice")]


class FreeChoices:
    """The devices that a program may choose differently on a machine with GPUs."""

    def __init__(self, capture_file: CaptureFile) -> None:
        self._chosen = {capture_file.frames[at] for at in capture_file.chosen}
        #: The scopes that may not request the CPU on a GPU machine.
        self.unsure_scopes = frozenset(unsure_scopes(capture_file))
        self._unsure = {
            capture_file.frames[scope.frame] for scope in self.unsure_scopes if scope.frame >= 0
        }
        self._questions = _gpu_questions(capture_file)
        # Whether the program continued after an error that its machine's devices caused.
        self._went_on = any(error.where in _BY_MACHINE for error in capture_file.errors)
        #: Why any op of a graph may be different on a GPU machine, or "".
        self.doubt = ""
        if _strategies_by_gpus(capture_file):
            self.doubt = "the program's distribution strategy depends on the machine's devices"

    def weighed(self, explanation: PlacementExplanation) -> PlacementExplanation:
        """Return an explanation with its certainty adjusted for a machine with a GPU."""
        if {blocker.kind for blocker in explanation.blockers} == {BlockerKind.NO_KERNEL}:
            return explanation  # whatever the program chooses
        at = _line(explanation, self._chosen)
        if at and self._questions:
            return doubted(explanation, _choice_by_gpus(self._questions, [at]), "possible")
        if self._questions:
            doubt = f"the program queries GPUs at {series(self._questions)} and may adapt to them"
        elif self._went_on:
            doubt = "the program continued after an error that may not occur with a GPU"
        elif at:
            doubt = f"the device requested at {at} is computed or conditional"
        else:
            return explanation
        return doubted(explanation, doubt)

    def why_unsure(self, explanation: PlacementExplanation) -> str:
        """Return a clause about the unknown device request that may put an op on the CPU."""
        if at := _line(explanation, self._unsure & self._chosen):
            return _choice_by_gpus(self._questions, [at])
        at = _line(explanation, self._unsure) or "a line that was not recorded"
        is_imported = at.startswith("importer.py")
        whose = "node of the imported graph" if is_imported else "tensor"
        return f"{at} requests the device of a {whose}, but that device is unknown"


def _line(explanation: PlacementExplanation, frames: Collection[Frame]) -> str:
    found = (b.scope_frame for b in explanation.blockers if b.scope_frame in frames)
    return next((line_text(frame) for frame in found if frame is not None), "")


# --- The move of small ops to the host -----------------------------------------------------------
#
# `pin_to_host_optimization` is off by default. `tf.config.optimizer` switches it on for all
# functions; a session of TensorFlow 1 has options of its own, in place of those. See
# `MetaOptimizer::InitializeOptimizers` (core/grappler/optimizers/meta_optimizer.cc).

OPTION: Final = "pin_to_host_optimization"
# The types of tensors that it moves if they are small: strings, and few numbers
# (`IsTensorSmall`, core/grappler/optimizers/pin_to_host_optimizer.cc).
MOVED_IF_SMALL: Final = frozenset({"int32", "int64", "float", "string"})


def pinned_by(
    capture_file: CaptureFile, *, is_of_session: bool
) -> Literal["program", "session"] | None:
    """Return "program" or "session", whichever enabled `pin_to_host_optimization`, or None."""
    configs = capture_file.session_configs if is_of_session else ()
    for rewrites in (config.rewrites for config in configs if config.is_own):
        named = rewrites.get("optimizers")  # if given, all that runs
        is_on = rewrites.get(OPTION) == "ON" and rewrites.get("disable_meta_optimizer") is not True
        if "pin_to_host" in named if isinstance(named, list) and named else is_on:
            return "session"
    options = (capture_file.devices or {}).get("optimizer_options")
    are_replaced = bool(configs) and all(config.is_own for config in configs)
    if are_replaced or not isinstance(options, dict) or options.get("disable_meta_optimizer"):
        return None
    return "program" if options.get(OPTION) is True else None


def pins_nothing(capture_file: CaptureFile) -> bool:
    """Return whether `pin_to_host_optimization` is known to be off."""
    is_known = isinstance((capture_file.devices or {}).get("optimizer_options"), dict)
    return is_known and not any(pinned_by(capture_file, is_of_session=of) for of in (False, True))


_ENDED: Final = "program"  # `CaughtError.where` of an error that ended the program
_BY_MACHINE: Final = frozenset({"no_device", "resource_exhausted"})
_GPU: Final = re.compile(r"\bGPU:(\d+)", re.IGNORECASE)
# Messages of TensorFlow 2.12 to 2.21: choosing an eager op's device, placing a graph, copying.
_NO_DEVICE: Final = re.compile(
    r"could not satisfy|unable to find any devices|unknown device|cannot assign a device"
    r"|no devices matching|available devices|device .*not (?:found|exist|available)",
    re.IGNORECASE,
)
_NO_CONTENT: Final = "Graph execution error:"  # a first line without information
_STACK: Final = re.compile(r"Detected at node .* \(most recent call last\):")
_LONGEST: Final = 200
_MOST_GPUS: Final = 64  # of an assumed machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error that ended a program."""

    error: CaughtError
    at: str  #: the user's line that raised it, as `train.py:7`, or ""
    #: The missing GPU that the program requested, as `GPU:0`, or "".
    missing: str
    is_strict: bool  #: whether soft placement, which would have used the CPU instead, was off
    obstacle: str  #: what kept TensorFlow from seeing that GPU, or ""

    @property
    def said(self) -> str:
        """The most informative line of the error's message."""
        every = map(str.strip, self.error.message.split("\n"))
        lines = [line for line in every if line not in {"", _NO_CONTENT}] or [self.error.type]
        if _STACK.match(lines[0]):  # the last lines are the error and the node
            lines = [line for line in lines if not line.startswith("[[")][-1:]
        first = next(filter(_NO_DEVICE.search, lines if self.missing else ()), lines[0])
        return first if len(first) <= _LONGEST else f"{first[:_LONGEST]} ..."

    @property
    def requires(self) -> str:
        """A clause that names the missing GPU, or "" for other errors."""
        if not self.missing:
            return ""
        strict = ", and soft placement is off" if self.is_strict else ""
        return f"it requires {self.missing}, which TensorFlow did not have{strict}"


def failure(capture_file: CaptureFile) -> Failure | None:
    """Return the error that ended a program, or None."""
    error = next((e for e in capture_file.errors if e.where == _ENDED), None)
    if error is None:
        return None
    raised = capture_file.frame(error.raised[0]) if error.raised else None
    is_of_devices = _NO_DEVICE.search(error.message) is not None
    known = set(_GPU.findall(" ".join(machine_of(capture_file).devices)))
    named = [n for n in _GPU.findall(error.message) if is_of_devices and n not in known]
    missing = f"GPU:{named[0]}" if named else ""
    is_strict = (capture_file.devices or {}).get("soft_device_placement") is False
    if ran_in_sessions_alone(capture_file):
        is_strict = not any(config.soft_placement for config in capture_file.session_configs)
    texts = (obstacle.text for obstacle in (obstacles(capture_file) if missing else ()))
    return Failure(
        error=error,
        at="" if raised is None else line_text(raised),
        missing=missing,
        is_strict=is_strict,
        obstacle=next(texts, ""),
    )


def gpus_required(capture_file: CaptureFile) -> int:
    """Return how many GPUs a program needs if it failed because a GPU was missing, else 0."""
    failed = failure(capture_file)
    if failed is None or not failed.missing:
        return 0
    named = [failed.missing, *(scope.device for scope in capture_file.scopes)]
    highest = max(int(number) for text in named for number in _GPU.findall(text))
    return min(highest + 1, _MOST_GPUS)

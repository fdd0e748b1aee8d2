"""The error that ended a program, and whether the program requested a GPU that did not exist."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.frames import line_text
from traceanalyzer.capture_file.visibility import obstacles, ran_in_sessions_alone
from traceanalyzer.placement.devices import machine_of

if TYPE_CHECKING:
    from traceanalyzer.capture_file.document import CaptureFile, CaughtError

_ENDED: Final = "program"  # `CaughtError.where` of an error that ended the program
_BY_MACHINE: Final = frozenset({"no_device", "resource_exhausted"})
_GPU: Final = re.compile(r"\bGPU:(\d+)", re.IGNORECASE)
# Messages of TensorFlow 2.12 to 2.21: choosing an eager op's device, placing a graph, copying.
_NO_DEVICE: Final = re.compile(
    r"could not satisfy|unable to find any devices|unknown device|cannot assign a device"
    r"|no devices matching|available devices|device .*not (?:found|exist|available)",
    re.IGNORECASE,
)
_NO_CONTENT: Final = "Graph execution error:"  # a first line that says nothing
_STACK: Final = re.compile(r"Detected at node .* \(most recent call last\):")
_LONGEST: Final = 200
_MOST_GPUS: Final = 64  # that a machine is assumed to have


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error that ended a program."""

    error: CaughtError
    #: The user's line that raised it, as `train.py:7`, or "".
    at: str
    #: The GPU that the program requested and TensorFlow did not have, as `GPU:0`, or "".
    missing: str
    #: Whether soft placement was off, which would have used the CPU instead.
    is_strict: bool
    #: What kept TensorFlow from seeing that GPU, or "".
    obstacle: str

    @property
    def said(self) -> str:
        """The most informative line of the error's message."""
        lines = [line.strip() for line in self.error.message.split("\n") if line.strip()]
        lines = [line for line in lines if line != _NO_CONTENT] or [self.error.type]
        if _STACK.match(lines[0]):  # its last lines are the error and the node
            lines = [line for line in lines if not line.startswith("[[")][-1:]
        first = next(filter(_NO_DEVICE.search, lines if self.missing else ()), lines[0])
        return first if len(first) <= _LONGEST else f"{first[:_LONGEST]} ..."

    @property
    def requires(self) -> str:
        """The missing GPU, for the end of a sentence; "" for other errors."""
        if not self.missing:
            return ""
        strict = ", and soft placement is off" if self.is_strict else ""
        return f"it requires {self.missing}, which TensorFlow did not have{strict}"


def failure(capture_file: CaptureFile) -> Failure | None:
    """Return the error that ended a program, if one did."""
    error = next((e for e in capture_file.errors if e.where == _ENDED), None)
    if error is None:
        return None
    raised = capture_file.frame(error.raised[0]) if error.raised else None
    missing = _missing(capture_file, error.message)
    obstacle = next(iter(obstacles(capture_file)), None) if missing else None
    return Failure(
        error=error,
        at="" if raised is None else line_text(raised),
        missing=missing,
        is_strict=_is_strict(capture_file),
        obstacle="" if obstacle is None else obstacle.text,
    )


def gpus_required(capture_file: CaptureFile) -> int:
    """Return how many GPUs a program needs that failed without one; 0 for any other program."""
    failed = failure(capture_file)
    if failed is None or not failed.missing:
        return 0
    named = [failed.missing, *(scope.device for scope in capture_file.scopes)]
    highest = max(int(number) for text in named for number in _GPU.findall(text))
    return min(highest + 1, _MOST_GPUS)


def went_on_after_error(capture_file: CaptureFile) -> bool:
    """Return whether a program continued after an error that its machine's devices caused."""
    return any(error.where in _BY_MACHINE for error in capture_file.errors)


def _missing(capture_file: CaptureFile, message: str) -> str:
    """Return the first GPU in an error about devices that the program did not have."""
    if not _NO_DEVICE.search(message):
        return ""
    known = set(_GPU.findall(" ".join(machine_of(capture_file).devices)))
    named = [number for number in _GPU.findall(message) if number not in known]
    return f"GPU:{named[0]}" if named else ""


def _is_strict(capture_file: CaptureFile) -> bool:
    if ran_in_sessions_alone(capture_file):
        return not any(config.soft_placement for config in capture_file.session_configs)
    return (capture_file.devices or {}).get("soft_device_placement") is False

"""Words and picture of the phases that a device's time is cut into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.format import duration, share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.model.times import DeviceTimeline, PhaseTime

DEVICES_APART: Final = 3
"""Up to this many devices are listed one below the other; more are compared in a table."""


_WORDS: Final = {
    "compute": ("computing", "A kernel ran."),
    "copy": ("copying", "A copy ran, and no kernel."),
    "host_op": (
        "CPU op",
        "The next work had to wait for an op on the CPU.",
    ),
    "unplaced": (
        "op of unknown placement",
        (
            "The next work had to wait for an op that computed on the CPU or launched a kernel. It "
            "does not count as a CPU op."
        ),
    ),
    "input": (
        "waiting for input",
        "The input pipeline (tf.data), or the op that takes the next element from it.",
    ),
    "launch": ("kernel launch", "The host launched the next work."),
    "runtime": (
        "TensorFlow runtime",
        (
            "Executors, function calls, and handing work between threads; at tracer level 2 also "
            "the host side of ops on the device, which leave no events there."
        ),
    ),
    "program": ("your program", "Your program (mostly Python), between calls of TensorFlow."),
    "queued": (
        "queued",
        "The next work was launched, but still in the device's queue.",
    ),
    "other_device": ("another device", "It waited for another device."),
    "unattributed": ("not attributed", "What it waited for is unknown."),
}
_WHOLE: Final = 100.0  # width of a bar


@dataclass(frozen=True)
class Piece:
    """A stretch of a bar, in hundredths of its width."""

    phase: str
    x: float
    width: float
    label: str


def known_phases() -> tuple[str, ...]:
    """Return all phases, in the order in which they are shown."""
    return tuple(_WORDS)


def phase_name(phase: str) -> str:
    """Return the name of a phase."""
    return _WORDS[phase][0]


def phase_meaning(phase: str) -> str:
    """Explain a phase in a sentence."""
    return _WORDS[phase][1]


def stacked(phases: Sequence[PhaseTime]) -> list[Piece]:
    """Return phases side by side, as wide as their shares."""
    pieces = []
    at = 0.0
    for phase in phases:
        if not phase.share or phase.share < 0:
            continue
        width = min(phase.share * _WHOLE, _WHOLE - at)
        time, part = duration(phase.us), share(phase.share)
        label = f"{phase_name(phase.phase)}: {time.figure} {time.unit} ({part.figure}{part.unit})"
        pieces.append(Piece(phase.phase, round(at, 3), round(width, 3), label))
        at += width
    return pieces


def phases_seen(devices: Sequence[DeviceTimeline]) -> list[str]:
    """Return the phases that any of the devices was in, in the order of the words above."""
    seen = {phase.phase for device in devices for phase in device.phases}
    return [phase for phase in _WORDS if phase in seen]


def shares_by_phase(device: DeviceTimeline) -> dict[str, float]:
    """Return the share of each phase that a device was in."""
    return {phase.phase: phase.share for phase in device.phases}

"""What the timeline's picture, its script and the table of gaps share: words, lanes, findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from traceanalyzer.report.packed import Numbers, Texts, pack
from traceanalyzer.report.text import cut
from traceanalyzer.report.views import fragment, numbered_findings, numbered_on_a_gpu

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.model import PackedTable, Report

KIND_WORDS: Final = {
    "step": ("a step", "A step of the program."),
    "compute": ("kernel", "A kernel ran on the device."),
    "copy": ("copy", "Bytes were copied between host and device, or within one."),
    "host_op": ("CPU op", "An op computed on the CPU."),
    "input": ("input pipeline", "tf.data, or the op that takes the next element from it."),
    "launch": ("kernel launch", "The host side of ops on a GPU."),
    "runtime": ("TensorFlow runtime", "Executors, calls, handing work between threads."),
    "program": ("your program", "Your program (mostly Python)."),
    "wait": ("waiting for the device", "The thread waited for the device."),
    "call": ("waiting for a function", "The thread waited for a function in other threads."),
    "unplaced": (
        "op of unknown placement",
        "An op computed on the CPU or launched a kernel; which is unknown.",
    ),
}
"""What each kind of event is called, and what that means."""
_GAP_WORDS: Final = {
    "host_op": "a CPU op",
    "unplaced": "an op of unknown placement",
    "input": "the input pipeline",
    "launch": "a kernel launch",
    "runtime": "the TensorFlow runtime",
    "program": "your program (mostly Python)",
    "queued": "queued work",
    "other_device": "another device",
    "copy": "a copy",
    "compute": "a kernel",
    "unattributed": "unknown",
}


def gap_words(phase: str | None) -> str:
    """Describe a gap's phase by what was waited for."""
    return _GAP_WORDS.get(phase or "", "unknown")


class FindingName(NamedTuple):
    """What a finding is called where there is room for a number, and the id of its card."""

    label: str
    title: str
    anchor: str


def finding_names(report: Report) -> dict[str, FindingName]:
    """Return the names of findings by id, including those for a machine with a GPU."""
    places = (
        ("on-a-gpu-finding", numbered_on_a_gpu(report)),
        ("finding", numbered_findings(report)),
    )
    return {
        n.finding.id: FindingName(n.label, n.finding.title, fragment(kind, n.finding.id))
        for kind, numbered in places
        for n in numbered
    }


def lane_table(report: Report) -> PackedTable:
    """Return the lanes for the page's script."""
    lanes = () if report.trace is None else report.trace.lanes
    per = 1000.0
    return pack(
        {
            "name": _texts([lane.name for lane in lanes]),
            "host": _texts([lane.host for lane in lanes]),
            "kind": _texts([lane.kind for lane in lanes]),
            "device": _texts([lane.device for lane in lanes]),
            "program": Numbers(np.array([lane.is_program for lane in lanes], np.float64)),
            "rows": Numbers(np.array([lane.rows for lane in lanes], np.float64)),
            "busy_us": Numbers(np.array([lane.busy_us for lane in lanes], np.float64), per),
        },
        0 if report.trace is None else report.trace.lanes_total,
    )


def finding_table(report: Report) -> PackedTable:
    """Return the names of findings, for the page's script."""
    found = finding_names(report)
    return pack(
        {
            "id": _texts(list(found)),
            "label": _texts([name.label for name in found.values()]),
            "title": _texts([cut(name.title) for name in found.values()]),
            "anchor": _texts([name.anchor for name in found.values()]),
        },
        len(found),
    )


def _texts(values: Sequence[str | None]) -> Texts:
    known = list(dict.fromkeys(value for value in values if value is not None))
    place = {text: k for k, text in enumerate(known)}
    return Texts(np.array([-1 if v is None else place[v] for v in values], np.int64), known)

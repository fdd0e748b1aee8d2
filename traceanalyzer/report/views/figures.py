"""The figures at the top in words: parts of a whole, counts by kind, why something is unknown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traceanalyzer.model import Report, Severity

__all__ = [
    "Part",
    "devices_in_short",
    "explained_parts",
    "health_in_short",
    "idle_of",
    "why_unknown",
]


@dataclass(frozen=True)
class Part:
    """A part of a whole, in words and as a share of it."""

    id: str
    words: str
    share: float
    start: float  # the sum of the parts before it


def explained_parts(report: Report) -> tuple[Part, ...]:
    """Returns how CPU-op time divides by certainty; empty where that is not known."""
    summary = report.summary
    explained = summary.explained
    shares = (explained.certain, explained.likely, explained.possible)
    known = [part for part in shares if part is not None]
    if summary.explained_share is None or len(known) != len(shares):
        return ()
    rest = max(0.0, 1.0 - sum(known))
    ids = ("certain", "likely", "possible", "unexplained")
    parts: list[Part] = []
    start = 0.0
    for name, part in zip(ids, (*known, rest), strict=True):
        # A rest this small is rounding in the document, not an op without a cause.
        value = 0.0 if name == "unexplained" and part < 1e-5 else part  # noqa: PLR2004
        parts.append(Part(name, name, value, start))
        start += value
    return tuple(parts)


def _has_gpu(report: Report) -> bool:
    return any(device.kind == "gpu" for device in report.run.devices)


def _has_steps(report: Report) -> bool:
    return bool(report.run.steps) or (report.steps is not None and bool(report.steps.count))


def idle_of(report: Report) -> str:
    """Returns what the share in which a GPU was idle is of, in words."""
    times = report.timeline
    has_steps = times is not None and any(d.steps for d in times.devices if d.device)
    return "of a step" if has_steps else "of the recording"


def devices_in_short(report: Report) -> tuple[tuple[int, str, str | None], ...]:
    """Returns how many devices there are of each kind and model; accelerators come first."""
    counts: dict[tuple[str, str | None], int] = {}
    for device in report.run.devices:
        kind = (device.kind, device.model)
        counts[kind] = counts.get(kind, 0) + 1
    ordered = sorted(counts.items(), key=lambda entry: entry[0][0] == "cpu")
    return tuple((count, kind, model) for (kind, model), count in ordered)


def health_in_short(report: Report) -> tuple[tuple[Severity, int], ...]:
    """Returns how many remarks on the trace there are of each severity, the worst first."""
    found = [entry.severity for entry in report.health]
    severities: tuple[Severity, ...] = ("error", "warning", "info")
    return tuple((s, found.count(s)) for s in severities if s in found)


def why_unknown(report: Report, what: str) -> str | None:
    """Returns why a figure is unknown, where the document itself says so."""
    if what in ("explained", "idle", "exposed") and not _has_gpu(report):
        return "no GPU in this trace"
    if what == "explained" and report.summary.cpu_op_us == 0:
        return "no CPU-op time in this trace"
    if what in ("steps", "exposed") and not _has_steps(report):
        return "no steps in this trace"
    if what == "bytes":
        return "the trace does not say how much was copied"
    return None

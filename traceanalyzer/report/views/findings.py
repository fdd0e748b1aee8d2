"""Findings in the page's order, numbered; what each lists, and which ops it explains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traceanalyzer.format import counted
from traceanalyzer.report.views.grids import ROWS_SHOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traceanalyzer.model import Finding, Report, RuleStatus

__all__ = [
    "FINDINGS_IN_FULL",
    "Explanation",
    "NumberedFinding",
    "SourcePlace",
    "cause_title",
    "explanations",
    "host_time",
    "kept_by_several",
    "nothing_on_the_cpu",
    "numbered_findings",
    "numbered_on_a_gpu",
    "ops_listed",
    "ranked",
    "source_places",
    "why_silent",
]

_HOST_MEMORY = "host_memory_kernel"  # placed on the GPU
_HARM_ORDER = ("harmful", "harmless", "by_design")
# What all findings together may list, so that a page of very many stays small.
_OPS_IN_ALL = 2000
_OPS_AT_LEAST = 8
# Beyond these a finding is a row of the table at the top; the document holds it in full.
FINDINGS_IN_FULL = 200


def kept_by_several(finding: Finding) -> str:
    """Returns what it means that more than one cause keeps the ops; empty where a single one does.

    The sentence ends without a stop, for what follows.
    """
    causes = len(finding.blockers)
    if causes < 2:  # noqa: PLR2004 - the finding itself tells of a single one
        return ""
    alone = ", each by itself" if all(blocker.sufficient for blocker in finding.blockers) else ""
    several = max(finding.ops_total or 0, len(finding.ops)) != 1
    kept, moves = ("them", "they move") if several else ("it", "it moves")
    told = "Two" if causes == 2 else f"{causes:,}"  # noqa: PLR2004
    return f"{told} causes keep {kept}{alone}: {moves} when all are gone"


@dataclass(frozen=True)
class NumberedFinding:
    """A finding and what it is called on the page, on paper and in the timeline: `3`, or `G3`."""

    label: str
    finding: Finding


def numbered_findings(report: Report) -> tuple[NumberedFinding, ...]:
    """Returns the findings in the page's order, numbered: what costs first, by its gain.

    What does harm comes before what does none and what is by design. Within each the most that
    mending can gain per step decides; where that is unknown how long the GPU waited per step; and
    then the host time, per step where there are steps.
    """
    return _numbered(report.findings, "")


def numbered_on_a_gpu(report: Report) -> tuple[NumberedFinding, ...]:
    """Returns what a replay of the placer finds for a machine with a GPU, numbered on its own."""
    return () if report.on_a_gpu is None else _numbered(report.on_a_gpu.findings, "G")


def nothing_on_the_cpu(report: Report) -> str:
    """Returns that no op stays on the CPU of a GPU machine, as far as that is known, or ""."""
    there = report.on_a_gpu
    if there is None or there.unexplained.ops:
        return ""
    if any(finding.cause != _HOST_MEMORY for finding in there.findings):
        return ""
    if there.replayed == 0:
        return "No op of this run could be replayed, so nothing is known of a GPU machine."
    if there.replayed is None:
        return "No op would stay on the CPU."
    said = f"No op would stay on the CPU; {counted(there.replayed, 'op')} replayed"
    if there.not_replayed:
        said += f", {there.not_replayed:,} could not be: the capture holds no node of theirs"
    return f"{said}."


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Returns findings in the order of `numbered_findings`; of equals the first stays first."""
    return tuple(sorted(findings, key=_rank))


def _numbered(findings: Sequence[Finding], prefix: str) -> tuple[NumberedFinding, ...]:
    return tuple(
        NumberedFinding(f"{prefix}{n}", finding) for n, finding in enumerate(ranked(findings), 1)
    )


def _rank(finding: Finding) -> tuple[int, float, float]:
    gain = None if finding.gain_us_per_step is None else finding.gain_us_per_step.high
    waits = finding.cost.exposed_us_per_step or 0.0
    cost = finding.cost
    took = (cost.host_us if cost.host_us_per_step is None else cost.host_us_per_step) or 0.0
    return _HARM_ORDER.index(finding.harm), -(waits if gain is None else gain), -took


def host_time(entries: Iterable[NumberedFinding]) -> float | None:
    """Returns the host time of findings together; None where it is known of none."""
    known = [e.finding.cost.host_us for e in entries if e.finding.cost.host_us is not None]
    return sum(known) if known else None


@dataclass(frozen=True)
class SourcePlace:
    """A line of the program, and how many of a finding's ops stand on it."""

    file: str
    line: int | None
    text: str | None  # what stands there, where that is known
    ops: int


def source_places(finding: Finding) -> tuple[SourcePlace, ...]:
    """Returns the lines that a finding's ops stand on, those with the dearest ops first."""
    counts: dict[tuple[str, int | None], int] = {}
    texts: dict[tuple[str, int | None], str | None] = {}
    for op in finding.ops:
        if op.file is None:
            continue
        place = (op.file, op.line)
        counts[place] = counts.get(place, 0) + 1
        texts[place] = texts.get(place) or op.source
    return tuple(SourcePlace(*place, texts[place], ops) for place, ops in counts.items())


def why_silent(report: Report, rule: RuleStatus) -> str:
    """Return why a cause was not found: what excludes it, if that is known."""
    if rule.reason is not None:
        return rule.reason
    excluded = (
        out.because for f in report.findings for out in f.ruled_out if out.cause == rule.cause
    )
    because = next(excluded, None)
    return because or "Nothing in this run shows it."


def ops_listed(report: Report) -> int:
    """Returns how many ops, and how much evidence, each finding lists at most."""
    count = len(numbered_findings(report)) + len(numbered_on_a_gpu(report))
    return max(_OPS_AT_LEAST, min(ROWS_SHOWN, _OPS_IN_ALL // max(1, count)))


@dataclass(frozen=True)
class Explanation:
    """A finding that an op takes part in."""

    finding: Finding
    dragged_along: bool


def explanations(report: Report) -> dict[str, list[Explanation]]:
    """Returns for each op the findings that name it, as a cause or as dragged along."""
    found: dict[str, list[Explanation]] = {}
    for finding in report.findings:
        for ops, dragged_along in ((finding.ops, False), (finding.dragged_along, True)):
            for op in ops:
                found.setdefault(op.op_id, []).append(Explanation(finding, dragged_along))
    return found


def cause_title(cause: str) -> str:
    """Returns a cause's id as words."""
    return " ".join(_ACRONYMS.get(word, word) for word in cause.split("_"))


_ACRONYMS = {"cpu": "CPU", "gpu": "GPU", "xla": "XLA", "tf": "TF"}

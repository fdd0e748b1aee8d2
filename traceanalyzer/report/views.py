"""What the page and the terminal show of a report: which rows, in which order, in which words."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import quote

from traceanalyzer.format import counted
from traceanalyzer.report.grids import ROWS_SHOWN, ops_grid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from traceanalyzer.model import Cell, Finding, OpRef, Report, RuleStatus, Severity
    from traceanalyzer.model.transfers import CopyEdge, ReadBack

_HOST_MEMORY = "host_memory_kernel"  # placed on the GPU
_HARM_ORDER = ("harmful", "harmless", "by_design")
# What all findings together may list, so that a page of very many stays small.
_OPS_IN_ALL = 2000
_OPS_AT_LEAST = 8
# Beyond these a finding is a row of the table at the top; the document holds it in full.
FINDINGS_IN_FULL = 200


def kept_by_several(finding: Finding) -> str:
    """Say that several blockers keep the ops off the GPU; "" for a single one."""
    blockers = len(finding.blockers)
    if blockers < 2:  # noqa: PLR2004 - the finding itself is about a single one
        return ""
    if blockers == 2:  # noqa: PLR2004
        return "Two blockers. Fix both: removing one is not enough."
    return f"{blockers:,} blockers. Fix all of them: removing some is not enough."


@dataclass(frozen=True)
class NumberedFinding:
    """A finding and what it is called on the page, on paper and in the timeline: `3`, or `G3`."""

    label: str
    finding: Finding


def numbered_findings(report: Report) -> tuple[NumberedFinding, ...]:
    """Return the findings in the page's order, numbered.

    Harmful ones come first, by-design ones last; each by the most time a fix could save per step
    or, if unknown, the GPU wait per step, and then by host time.
    """
    return _numbered(report.findings, "")


def numbered_on_a_gpu(report: Report) -> tuple[NumberedFinding, ...]:
    """Return what a replay of the placer finds for a machine with a GPU, numbered on its own."""
    return () if report.on_a_gpu is None else _numbered(report.on_a_gpu.findings, "G")


def nothing_on_the_cpu(report: Report) -> str:
    """Say that no op would run on the CPU of a GPU machine, if that is so; or ""."""
    there = report.on_a_gpu
    if there is None or there.unexplained.ops:
        return ""
    if any(finding.cause != _HOST_MEMORY for finding in there.findings):
        return ""
    if there.replayed == 0:
        return "No op of this run could be replayed, so placement with a GPU is unknown."
    if there.replayed is None:
        return "No op would stay on the CPU."
    said = f"No op would stay on the CPU ({counted(there.replayed, 'op')} replayed)"
    if there.not_replayed:
        said += (
            f"; {there.not_replayed:,} could not be replayed, because the capture lacks their nodes"
        )
    return f"{said}."


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings in the order of `numbered_findings`; of equals the first stays first."""
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
    """Return the total host time of findings; None if no host time is known."""
    known = [e.finding.cost.host_us for e in entries if e.finding.cost.host_us is not None]
    return sum(known) if known else None


@dataclass(frozen=True)
class SourcePlace:
    """A line of the program, and how many of a finding's ops it has."""

    file: str
    line: int | None
    text: str | None  # of the line, if known
    ops: int


def source_places(finding: Finding) -> tuple[SourcePlace, ...]:
    """Return the source lines of a finding's ops, those with the most expensive ops first."""
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
    """Return how many ops, and how much evidence, each finding lists at most."""
    count = len(numbered_findings(report)) + len(numbered_on_a_gpu(report))
    return max(_OPS_AT_LEAST, min(ROWS_SHOWN, _OPS_IN_ALL // max(1, count)))


@dataclass(frozen=True)
class Explanation:
    """A finding that an op takes part in."""

    finding: Finding
    dragged_along: bool


def explanations(report: Report) -> dict[str, list[Explanation]]:
    """Return for each op the findings that name it, as a cause or as dragged along."""
    found: dict[str, list[Explanation]] = {}
    for finding in report.findings:
        for ops, dragged_along in ((finding.ops, False), (finding.dragged_along, True)):
            for op in ops:
                found.setdefault(op.op_id, []).append(Explanation(finding, dragged_along))
    return found


def cause_title(cause: str) -> str:
    """Return a cause's id as words."""
    return " ".join(_ACRONYMS.get(word, word) for word in cause.split("_"))


_ACRONYMS = {"cpu": "CPU", "gpu": "GPU", "xla": "XLA", "tf": "TF"}


@dataclass(frozen=True)
class Part:
    """A part of a whole, in words and as a share of it."""

    id: str
    words: str
    share: float
    start: float  # the sum of the parts before it


def explained_parts(report: Report) -> tuple[Part, ...]:
    """Return how CPU-op time divides by certainty; empty where that is not known."""
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
    """Say whether idle shares of a GPU are of a step or of the recording."""
    times = report.timeline
    has_steps = times is not None and any(d.steps for d in times.devices if d.device)
    return "of a step" if has_steps else "of the recording"


def devices_in_short(report: Report) -> tuple[tuple[int, str, str | None], ...]:
    """Return how many devices there are of each kind and model; accelerators come first."""
    counts: dict[tuple[str, str | None], int] = {}
    for device in report.run.devices:
        kind = (device.kind, device.model)
        counts[kind] = counts.get(kind, 0) + 1
    ordered = sorted(counts.items(), key=lambda entry: entry[0][0] == "cpu")
    return tuple((count, kind, model) for (kind, model), count in ordered)


def health_in_short(report: Report) -> tuple[tuple[Severity, int], ...]:
    """Return how many remarks on the trace there are of each severity, the worst first."""
    found = [entry.severity for entry in report.health]
    severities: tuple[Severity, ...] = ("error", "warning", "info")
    return tuple((s, found.count(s)) for s in severities if s in found)


def why_unknown(report: Report, what: str) -> str | None:
    """Return why a figure is unknown, where the document itself says so."""
    if what in ("explained", "idle", "exposed") and not _has_gpu(report):
        return "no GPU in this trace"
    if what == "explained" and report.summary.cpu_op_us == 0:
        return "no CPU-op time in this trace"
    if what in ("steps", "exposed") and not _has_steps(report):
        return "no steps in this trace"
    if what == "bytes":
        return "the trace does not say how much was copied"
    return None


def node_labels(report: Report) -> dict[str, str]:
    """Return the name of each node of the copy graph."""
    graph = report.copy_graph
    return {} if graph is None else {node.op_id: node.label for node in graph.nodes}


def copy_edges(report: Report) -> tuple[CopyEdge, ...]:
    """Return the edges of the copy graph, those that the GPU waits for longest first."""
    graph = report.copy_graph
    if graph is None:
        return ()
    longest = sorted(graph.edges, key=lambda e: (-(e.exposed_us or 0.0), -(e.total_us or 0.0)))
    return tuple(longest[:ROWS_SHOWN])


def in_a_step(back: ReadBack, total_us: float | None) -> float | None:
    """Return what a total over all copies of a value comes to in a step; unchanged without steps.

    That is the mean over the copies times their median number in a step.
    """
    if total_us is None or back.count_per_step is None:
        return total_us
    return total_us / back.count * back.count_per_step


_LONGEST_KEY = 200


def fragment(kind: str, key: str) -> str:
    """Return the anchor of a finding or an op: the same in every report of the same program."""
    key = quote(key, safe="", errors="surrogatepass")
    if len(key) > _LONGEST_KEY:  # none of ours is
        key = f"{key[:_LONGEST_KEY]}-{sha256(key.encode('ascii')).hexdigest()[:12]}"
    return f"{kind}-{key}"


@dataclass(frozen=True)
class Home:
    """Where an op is at home on the page: a place and a row in it."""

    place: str
    row: int


def homes(report: Report) -> dict[str, Home]:
    """Return for each op the one row that has its anchor."""
    found: dict[str, Home] = {}
    for place, keys in _places(report):
        for row, key in enumerate(keys):
            if isinstance(key, str):
                found.setdefault(key, Home(place, row))
    return found


def _places(report: Report) -> Iterator[tuple[str, Iterable[Cell]]]:
    yield "ops", [row.get("op_id") for row in ops_grid(report).rows]
    yield "unexplained", _keys(report.unexplained.ops)
    limit = ops_listed(report)
    for numbered in numbered_findings(report)[:FINDINGS_IN_FULL]:
        yield f"finding-{numbered.label}", _keys(numbered.finding.ops, limit)
        yield f"dragged-{numbered.label}", _keys(numbered.finding.dragged_along, limit)


def _keys(ops: Sequence[OpRef], limit: int = ROWS_SHOWN) -> list[Cell]:
    return [op.op_id for op in ops[:limit]]

"""Why single ops ran where they did, with all facts of the diagnosis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from traceanalyzer.attribution import cause_of
from traceanalyzer.causes import BlockedOps, all_causes
from traceanalyzer.causes.knowledge.candidates import SETTLED_BY, Candidates
from traceanalyzer.causes.knowledge.finding_text import blocker_text
from traceanalyzer.causes.knowledge.gpu_memory import memory_note
from traceanalyzer.findings import CERTAINTIES
from traceanalyzer.format import listed
from traceanalyzer.model import RuledOut
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import GPU, asks_for_cpu, device_text
from traceanalyzer.placement.kernel_types import python_name
from traceanalyzer.placement.registry import nearest
from traceanalyzer.report.folds import memory_peak
from traceanalyzer.report.records import evidence_shown
from traceanalyzer.report.text import sentence
from traceanalyzer.tables.functions import CONSTANTS
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS, Role

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from traceanalyzer.cpu_ops import CpuOp
    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.findings import Finding
    from traceanalyzer.model import Certainty, Evidence, Fix, Harm
    from traceanalyzer.placement.blocker import Blocker, Link
    from traceanalyzer.run import Run

_LINKS: Final[dict[Link, str]] = {
    "own": "",
    "resource": "shares a resource with a blocked op: ",
    "class": "colocated by `_class` with a blocked op: ",
    "follows": "follows a blocked op: ",
}
_NOT_COMPUTING: Final = {
    Role.INPUT_PIPELINE: "It is part of the input pipeline, which TensorFlow runs on the CPU "
    "unless the program requests a GPU.",
    Role.TRANSFER: "It moves data between devices; it computes nothing.",
    Role.RUNTIME: "It is part of the TensorFlow runtime: it handles calls and their arguments.",
}
_FOLDED: Final = (
    "TensorFlow computed its value once, while it prepared the graph (constant folding, or a shape "
    "that Python needed). It does that on the CPU by design, even with a GPU. No step runs the op."
)
_CALLS_PYTHON: Final = (
    "It would not be placed on the CPU there, but it calls Python code, which runs on the host."
)


class Reason(NamedTuple):
    """One thing that keeps an op from a GPU."""

    cause: str | None  # None if unknown; so is `harm`
    certainty: Certainty
    harm: Harm | None
    title: str
    why: str = ""
    evidence: tuple[Evidence, ...] = ()
    fixes: tuple[Fix, ...] = ()
    tie: str = ""  # how it affects the op; "" for a reason of the op itself


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Why an op is where it is, on one machine."""

    assumed: str = ""  # the assumed machine, unless it is the run's
    said: str = ""  # text shown beside the reasons, or without any
    reasons: tuple[Reason, ...] = ()
    is_complete: bool = False  # there are no other reasons
    ruled_out: tuple[RuledOut, ...] = ()
    doubts: tuple[str, ...] = ()  # why this may be wrong
    open: tuple[tuple[str, str], ...] = ()  # causes that are still possible, with their titles
    settled_by: str = ""  # how to get a definite answer


class Reasoner:
    """Looks up why single ops are where they are."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        self._diagnosis = diagnosis
        self._run = diagnosis.run
        self._causes = all_causes()
        self._titles = {cause.id: cause.title for cause in self._causes}
        self._captured = {host.name: host.capture_file for host in self._run.hosts}
        self._candidates = Candidates(self._run)

    def here(self, row: Any) -> View:  # noqa: ANN401 - a row of the op table
        """Return why an op was where it was in this run."""
        capture_file = self._captured[str(row.host)]
        cpu_op = self._diagnosis.cpu_ops.get(row.op_id)
        reasons = self._reasons(row.op_id, cpu_op, self._diagnosis.findings)
        settled_by = SETTLED_BY if capture_file is None else ""
        if row.role != Role.COMPUTE:
            is_folded = row.function == CONSTANTS
            said = _FOLDED if is_folded else _NOT_COMPUTING.get(row.role, "")
            return View(said=said, reasons=reasons)
        if row.placement == "unknown":
            said = "Where it ran is unknown."
            return View(said=said, reasons=reasons, settled_by=settled_by)
        if row.placement != "cpu":
            return View(said="" if reasons else "It is not on the CPU.", reasons=reasons)
        if cpu_op is None:
            return View(reasons=reasons)
        view = self._view(cpu_op, reasons)
        if reasons:
            return view
        left = tuple((cause, self._open(cause, cpu_op)) for cause in self._candidates.of(cpu_op))
        said = "What keeps it on the CPU is unknown."
        return replace(view, open=left, said=said, settled_by=settled_by)

    def on_a_gpu(self, row: Any) -> View | None:  # noqa: ANN401
        """Return where an op would be on a machine with a GPU; None if that is unknown."""
        replay = self._diagnosis.on_a_gpu
        if replay is None or self._captured[str(row.host)] is None or row.role != Role.COMPUTE:
            return None
        assumed, there, op_id = replay.assumption, replay.analysis, row.op_id
        if op_id in there.replaced:
            return View(assumed=assumed, said=f"{there.replaced[op_id]}.")
        on_host = there.on_host.get(op_id)
        cpu_op = there.cpu_ops.get(op_id) or on_host
        reasons = self._reasons(op_id, cpu_op, replay.findings)
        if cpu_op is None:
            said = "It would not be on the CPU there."
            if reasons:
                said = "It would be on the CPU there only while the program hides the GPU."
            elif op_id in there.unsure:
                said = f"It may be on the CPU there too: {there.unsure[op_id]}."
            elif op_id in there.not_replayed:
                said = "Where it would be there is unknown: its node is not in the capture."
            elif row.type in PYTHON_CALLBACKS:
                said = _CALLS_PYTHON
            return View(assumed=assumed, said=said, reasons=reasons, doubts=replay.program_differs)
        view = self._view(cpu_op, reasons)
        modal = "may" if cpu_op.explanation.certainty == "possible" else "would"
        said = f"It {modal} be on the CPU there too."
        if cpu_op is on_host:
            device = device_text(cpu_op.explanation.blockers[0].requested_device)
            said = f"It {modal} be placed on {device} and computed on the host there, by design."
        if not reasons:
            said += " What would keep it there is unknown."
        doubts = {sentence(text): text for text in (*view.doubts, *replay.program_differs)}
        is_complete = view.is_complete and cpu_op is not on_host  # else it is on the GPU already
        return replace(
            view,
            assumed=assumed,
            said=said,
            doubts=tuple(doubts.values()),
            is_complete=is_complete,
        )

    def _view(self, cpu_op: CpuOp, reasons: tuple[Reason, ...]) -> View:
        explanation = cpu_op.explanation
        causes = {reason.cause for reason in reasons if reason.cause is not None}
        return View(
            reasons=reasons,
            is_complete=explanation.is_complete and 0 < len(explanation.blockers) == len(reasons),
            ruled_out=tuple(ruled_out(self._run, cpu_op, causes)),
            doubts=tuple(text for text in (explanation.contradiction, explanation.doubt) if text),
        )

    def _reasons(
        self, op_id: str, cpu_op: CpuOp | None, findings: Sequence[Finding]
    ) -> tuple[Reason, ...]:
        """Return an op's blockers, and its findings whose causes are not among them."""
        blocked_by = []
        if cpu_op is not None:
            blocked_by = [self._blocked_by(cpu_op, each) for each in cpu_op.explanation.blockers]
        causes = {(reason.cause or "").partition("/")[0] for reason in blocked_by}
        others = [
            Reason(
                cause="/".join(filter(None, (finding.cause, finding.sub_reason))),
                certainty=finding.certainty,
                harm=finding.harm,
                title=finding.title,
                why=finding.why,
                evidence=evidence_shown(finding.evidence, self._run),
                fixes=finding.fixes,
            )
            for finding in findings
            if op_id in finding.op_ids and finding.cause not in causes
        ]
        return (*others, *blocked_by)

    def _blocked_by(self, cpu_op: CpuOp, blocker: Blocker) -> Reason:
        known, certainty = cause_of(cpu_op, blocker, self._causes), cpu_op.explanation.certainty
        # The title of some blockers names the resource.
        is_named = blocker.kind in {BlockerKind.ASSIGNED, BlockerKind.RESOURCE}
        tie = "" if blocker.link == "resource" and is_named else _LINKS[blocker.link]
        if known is None:
            return Reason(None, certainty, None, blocker_text(blocker), tie=tie)
        cause, match, words = known
        return Reason(
            cause="/".join(filter(None, (cause.id, match.sub_reason))),
            certainty=max(certainty, match.certainty, key=CERTAINTIES.index),
            harm=words.harm,
            title=words.title,
            why=words.why,
            evidence=evidence_shown(match.evidence, self._run),
            fixes=words.fixes,
            tie=tie,
        )

    def _open(self, cause: str, cpu_op: CpuOp) -> str:
        if cause == "dtype_unsupported" and cpu_op.explanation.types_missing:
            return f"if its dtype is {_types_missing(cpu_op)}"
        return self._titles.get(cause, "")


def _types_missing(cpu_op: CpuOp) -> str:
    return listed([python_name(t) for t in cpu_op.explanation.types_missing])


# --- what is excluded ----------------------------------------------------------------------------


def ruled_out(run: Run, cpu_op: CpuOp, causes: Collection[str]) -> Iterator[RuledOut]:
    """Yield the causes that a fact excludes, except the op's actual causes."""
    found = {cause.partition("/")[0] for cause in causes}
    for cause, because in _excluded(run, cpu_op):
        if cause not in found:
            yield RuledOut(cause=cause, because=because)


def _excluded(run: Run, cpu_op: CpuOp) -> Iterator[tuple[str, str]]:
    facts = next(host for host in run.hosts if host.name == cpu_op.host).tables.facts
    if facts.gpu_used:
        yield "no_gpu_visible", f"TensorFlow used a GPU: {facts.gpu_witness}"
    yield from _by_registry(run, cpu_op)
    requested = cpu_op.requested_device
    if requested is not None and not asks_for_cpu(requested):
        text = "no device was requested"
        text = f"the program requested {device_text(requested)}" if requested else text
        yield "explicit_cpu_placement", text
        yield "library_cpu_placement", text
    yield from _by_memory(run, cpu_op)


def _by_registry(run: Run, cpu_op: CpuOp) -> Iterator[tuple[str, str]]:
    """Yield the causes that the kernels of the program's TensorFlow version exclude."""
    explanation, kernels = cpu_op.explanation, nearest(run.tensorflow_version)
    op_type, version = explanation.type, f"TensorFlow {kernels.registry.version}"
    if kernels.registry.definition(op_type) is None or not kernels.exact:
        return
    if kernels.registry.gpu_kernels(op_type):
        text = f"{version} has GPU kernels for {op_type}"
        if explanation.kernels is not None and GPU in explanation.kernels and not explanation.doubt:
            text = f"{version} has a GPU kernel for {op_type} with its dtypes"
            yield "dtype_unsupported", text
        elif explanation.types_missing:
            text += f", but not for {_types_missing(cpu_op)}"
        yield "no_gpu_kernel", text
    yield "custom_op", f"{op_type} is part of {version}"


def _by_memory(run: Run, cpu_op: CpuOp) -> Iterator[tuple[str, str]]:
    """Yield the facts that exclude memory as a cause, if there are any."""
    blockers = cpu_op.explanation.blockers
    note = memory_note(run, BlockedOps(((cpu_op, blockers[0]),))) if blockers else None
    if note is not None and (note.certainty or note.ruled_out):
        yield from ((out.cause, out.because) for out in note.ruled_out)
        return
    capture_file = next(host for host in run.hosts if host.name == cpu_op.host).capture_file
    if capture_file is None or any(e.where == "resource_exhausted" for e in capture_file.errors):
        return
    none, moves_no_op = "no out-of-memory error was recorded", "TensorFlow moves no op"
    why = f"and {moves_no_op} because memory is short or a GPU is busy"
    yield "memory_pressure", "; ".join(filter(None, (none, memory_peak(run), why)))

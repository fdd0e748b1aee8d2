"""Where single ops ran and why: all that a diagnosis knows of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from traceanalyzer.attribution import cause_of
from traceanalyzer.causes import all_causes
from traceanalyzer.causes.knowledge.candidates import SETTLED_BY, Candidates
from traceanalyzer.causes.knowledge.finding_text import blocker_text
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.format import counted, listed
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import device_text, machine_of
from traceanalyzer.placement.kernel_types import python_name
from traceanalyzer.report.ruled_out import possible, ruled_out
from traceanalyzer.report.sources import evidence_shown
from traceanalyzer.report.text import sentence
from traceanalyzer.source_files import shown_files
from traceanalyzer.tables.functions import CONSTANTS
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS, Role
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Sequence

    from traceanalyzer.causes import Cause
    from traceanalyzer.cpu_ops import CpuOp
    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.findings import Finding
    from traceanalyzer.model import Certainty, Evidence, Fix, Harm, RuledOut
    from traceanalyzer.placement.blocker import Blocker, Link
    from traceanalyzer.run import Host

_MOST: Final = 20  # ops that are shown
_SUGGESTED: Final = 3
_LINKS: Final[dict[Link, str]] = {
    "own": "",
    "resource": "shares a resource with a blocked op: ",
    "class": "colocated by `_class` with a blocked op: ",
    "follows": "follows a blocked op: ",
}
_WITNESS: Final = {
    "capture_file": "the capture recorded it",
    "kernel": "its kernel ran there",
    "compiled": "XLA compiled it into a kernel",
    "input_pipeline": "it ran for tf.data",
    "executor": "a send names the executor's device",
    "transfer": "it is at one end of a transfer",
    "allocator": "its output was allocated there",
    "host_event": "at host tracer level 2, only CPU ops leave an event",
    "no_gpu": "the trace shows no GPU",
    "registry": "no TensorFlow version has a GPU kernel for it",
    "summary": "a summary was written right after it",
    "none": "not recorded",
}
# Placements as the op table names them, if the device is unknown.
_PLACEMENTS: Final = {
    "cpu": "the CPU",
    "host_memory": "a GPU, computed on the host",
    "pluggable": "a pluggable device",
    "remote": "another task",
    "unknown": "unknown",
    "xla": "what XLA compiled it for",
}
_MOVES: Final = "It would not be on the CPU there."
_MAY_STAY: Final = "It may be on the CPU there too: {}."
_ON_HOST: Final = "It {} be placed on {} and computed on the host there, by design."
_HIDDEN: Final = "It would be on the CPU there only while the program hides the GPU."
_NOT_REPLAYED: Final = "Where it would be there is unknown: its node is not in the capture."
_CALLS_PYTHON: Final = (
    "It would not be placed on the CPU there, but the Python that it calls runs on the host."
)
_OTHER_ROLES: Final = {
    Role.INPUT_PIPELINE: "It is part of the input pipeline, which TensorFlow runs on the CPU "
    "unless the program requests a GPU.",
    Role.TRANSFER: "It moves data between devices; it computes nothing.",
    Role.RUNTIME: "It is part of the TensorFlow runtime: it handles calls and their arguments.",
}
_FOLDED: Final = (
    "TensorFlow computed its value once, while it prepared the graph (constant folding, or a shape "
    "that Python needed). It does that on the CPU by design, even with a GPU. No step runs the op."
)


class NoSuchOpError(TraceAnalyzerError):
    """No op of a run is called so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One thing that keeps an op from a GPU."""

    cause: str | None  # None if unknown, as `harm`
    certainty: Certainty
    harm: Harm | None
    title: str
    why: str  # "" if the cause is unknown
    tie: str  # how it is linked to the op, "" for the op's own
    evidence: tuple[Evidence, ...]
    fixes: tuple[Fix, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Why an op is where it is, on one machine."""

    assumed: str = ""  # the machine, if it is not the run's own
    said: str = ""  # what to say without reasons, or beside them
    possible: tuple[str, ...] = ()  # devices and kernels there are, a sentence each
    reasons: tuple[Reason, ...] = ()
    is_complete: bool = False  # the reasons are all there are
    ruled_out: tuple[RuledOut, ...] = ()
    doubts: tuple[str, ...] = ()  # why this may be wrong
    open: tuple[tuple[str, str], ...] = ()  # causes that are still possible, with their titles
    settled_by: str = ""  # how to get a definite answer


@dataclass(frozen=True, slots=True, kw_only=True)
class OpReasoning:
    """One op, and all that is known of its place."""

    name: str
    type: str
    stands_for: str  # the type in the program, if a rewrite replaced it; or ""
    function: str  # "" for none
    host: str  # "" if the run has one host
    place: str  # `file:line`, or ""
    ran_on: str
    certainty: str
    witness: str  # what `certainty` rests on
    requested: str | None  # "" for none, None if unknown
    input_types: tuple[str, ...] | None  # as Python spells them
    occurrences: int
    host_us: float  # on host threads
    here: View
    on_a_gpu: View | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoned:
    """The ops that an expression matches."""

    ops: tuple[OpReasoning, ...]  # CPU ops first, then by host time
    total: int  # how many match


def reason(
    diagnosis: Diagnosis, expression: re.Pattern[str], causes: Sequence[Cause] | None = None
) -> Reasoned:
    """Return all that is known of the ops whose name or type an expression matches.

    Raises:
        NoSuchOpError: None matches; the message names similar types.
    """
    run = diagnosis.run
    there = diagnosis.on_a_gpu
    assumed = {} if there is None else {**there.analysis.on_host, **there.analysis.cpu_ops}
    cpu_ops = {**assumed, **diagnosis.cpu_ops}
    known_as = {op_id: s.explanation.type for op_id, s in cpu_ops.items()}
    ops = run.ops
    matches = [
        any(expression.search(text) for text in (str(name), str(type_), known_as.get(op_id, "")))
        for op_id, name, type_ in zip(ops["op_id"], ops["name"], ops["type"], strict=True)
    ]
    rows = ops[matches]
    if rows.empty:
        raise NoSuchOpError(_nothing_matches(expression.pattern, ops))
    is_in_question = (rows["placement"] == "cpu") & (rows["role"] == Role.COMPUTE)
    rows = rows.assign(in_question=is_in_question).sort_values(
        ["in_question", "host_self_ps"], ascending=False, kind="stable"
    )
    reasoner = Reasoner(diagnosis, all_causes() if causes is None else causes)
    shown = rows.head(_MOST)
    files = shown_files(shown["source_file"], run)
    return Reasoned(
        ops=tuple(
            reasoner.of(row, file)
            for row, file in zip(shown.itertuples(index=False), files, strict=True)
        ),
        total=len(rows),
    )


def _nothing_matches(expression: str, ops: pd.DataFrame) -> str:
    types = sorted({str(op_type) for op_type in ops["type"].dropna()})
    lowered = {op_type.lower(): op_type for op_type in types}
    alike = get_close_matches(expression.lower(), lowered, n=_SUGGESTED)
    msg = f"no op of the run has a name or type that matches {expression!r}"
    if alike:
        return f"{msg}; similar types: {', '.join(lowered[name] for name in alike)}"
    return f"{msg}; `traceanalyzer tables` writes all of its {counted(len(ops), 'op')}"


class Reasoner:
    """Looks up what a diagnosis knows of single ops."""

    def __init__(self, diagnosis: Diagnosis, causes: Sequence[Cause]) -> None:
        self._diagnosis = diagnosis
        self._run = diagnosis.run
        self._causes = causes
        self._titles = {cause.id: cause.title for cause in causes}
        self._hosts = {host.name: host for host in self._run.hosts}
        self._version = self._run.tensorflow_version
        self._candidates = Candidates(self._run)

    def of(self, row: Any, file: str | None) -> OpReasoning:  # noqa: ANN401 - a row of the op table
        """Return what is known about one row."""
        cpu_op = self._diagnosis.cpu_ops.get(row.op_id)
        on_a_gpu = self._diagnosis.on_a_gpu
        assumed = None if on_a_gpu is None else on_a_gpu.analysis.cpu_ops.get(row.op_id)
        known = cpu_op or assumed
        in_program = row.type if known is None else known.explanation.type
        line = None if pd.isna(row.source_line) else int(row.source_line)
        types = row.input_types.split(";") if isinstance(row.input_types, str) else None
        return OpReasoning(
            name=str(row.name),
            type=str(row.type),
            stands_for="" if in_program == row.type else in_program,
            function=row.function if isinstance(row.function, str) else "",
            host=str(row.host) if len(self._hosts) > 1 else "",
            place="" if file is None else f"{file}:{line}" if line is not None else file,
            ran_on=_device(row),
            certainty=str(row.placement_certainty),
            witness=_WITNESS.get(str(row.placement_source), str(row.placement_source)),
            requested=row.requested_device if isinstance(row.requested_device, str) else None,
            input_types=None if types is None else tuple(python_name(t) for t in types if t),
            occurrences=int(row.occurrences),
            host_us=int(row.host_self_ps) / PS_PER_US,
            here=self._here(row, cpu_op),
            on_a_gpu=self._on_a_gpu(row, assumed),
        )

    def _here(self, row: Any, cpu_op: CpuOp | None) -> View:  # noqa: ANN401
        """Return why an op was where it was in this run."""
        host = self._hosts[str(row.host)]
        found = [f for f in self._diagnosis.findings if row.op_id in f.op_ids]
        reasons = self._reasons(cpu_op, found)
        if row.role != Role.COMPUTE:
            is_folded = row.function == CONSTANTS
            said = _FOLDED if is_folded else _OTHER_ROLES.get(row.role, "")
            return View(said=said, reasons=reasons)
        if row.placement == "unknown":
            return View(
                said="Where it ran is unknown.",
                reasons=reasons,
                settled_by=SETTLED_BY if host.capture_file is None else "",
            )
        if row.placement != "cpu":
            said = "" if reasons else "It is not on the CPU."
            return View(said=said, reasons=reasons)
        if cpu_op is None:
            return View(reasons=reasons)
        view = self._view(row, cpu_op, reasons, devices=self._devices(host))
        if reasons:
            return view
        left = self._candidates.of(cpu_op)
        return replace(
            view,
            open=tuple((cause, self._open(cause, cpu_op)) for cause in left),
            said="What keeps it on the CPU is unknown.",
            settled_by=SETTLED_BY if host.capture_file is None else "",
        )

    def _on_a_gpu(self, row: Any, cpu_op: CpuOp | None) -> View | None:  # noqa: ANN401
        """Return where an op would be on a machine with a GPU; None if that is unknown."""
        replay = self._diagnosis.on_a_gpu
        host = self._hosts[str(row.host)]
        if replay is None or host.capture_file is None or row.role != Role.COMPUTE:
            return None
        assumed = replay.assumption
        there = replay.analysis
        on_host = there.on_host.get(row.op_id)
        cpu_op = cpu_op or on_host
        if row.op_id in there.replaced:
            return View(assumed=assumed, said=f"{there.replaced[row.op_id]}.")
        found = [f for f in replay.findings if row.op_id in f.op_ids]
        if cpu_op is None:
            said = _CALLS_PYTHON if row.type in PYTHON_CALLBACKS else _MOVES
            if row.op_id in there.not_replayed:
                said = _NOT_REPLAYED
            if row.op_id in there.unsure:
                said = _MAY_STAY.format(there.unsure[row.op_id])
            return View(
                assumed=assumed,
                said=_HIDDEN if found else said,
                reasons=self._reasons(None, found),
                doubts=replay.program_differs,
            )
        reasons = self._reasons(cpu_op, found)
        view = self._view(row, cpu_op, reasons, devices=replay.machine.devices)
        modal = "may" if cpu_op.explanation.certainty == "possible" else "would"
        if cpu_op is on_host:
            view = replace(view, is_complete=False)  # it is on the GPU as it is
            said = _ON_HOST.format(
                modal, device_text(cpu_op.explanation.blockers[0].requested_device)
            )
        else:
            said = f"It {modal} be on the CPU there too."
        if not reasons:
            said += " What would keep it there is unknown."
        doubts = {sentence(t).rstrip("."): t for t in (*view.doubts, *replay.program_differs)}
        return replace(view, assumed=assumed, said=said, doubts=tuple(doubts.values()))

    def _view(
        self,
        row: Any,  # noqa: ANN401
        cpu_op: CpuOp,
        reasons: tuple[Reason, ...],
        devices: Sequence[str],
    ) -> View:
        explanation = cpu_op.explanation
        causes = {r.cause for r in reasons if r.cause is not None}
        host = self._hosts[str(row.host)]
        return View(
            possible=tuple(possible(cpu_op, devices, self._version)),
            reasons=reasons,
            is_complete=explanation.is_complete and 0 < len(explanation.blockers) == len(reasons),
            ruled_out=tuple(ruled_out(self._run, host, cpu_op, causes)),
            doubts=tuple(text for text in (explanation.contradiction, explanation.doubt) if text),
        )

    def _reasons(self, cpu_op: CpuOp | None, found: Iterable[Finding]) -> tuple[Reason, ...]:
        """Return the blockers of an op, and the findings on it that have other causes."""
        blockers = () if cpu_op is None else cpu_op.explanation.blockers
        blocked_by = [self._blocked_by(cpu_op, blocker) for blocker in blockers if cpu_op]
        causes = {(reason.cause or "").partition("/")[0] for reason in blocked_by}
        others = [self._found(finding) for finding in found if finding.cause not in causes]
        return (*others, *blocked_by)

    def _blocked_by(self, cpu_op: CpuOp, blocker: Blocker) -> Reason:
        known = cause_of(cpu_op, blocker, self._causes)
        if known is None:
            return Reason(
                cause=None,
                certainty=cpu_op.explanation.certainty,
                harm=None,
                title=blocker_text(blocker),
                why="",
                tie=_tie(blocker),
                evidence=(),
                fixes=(),
            )
        cause, match, words = known
        levels: tuple[Certainty, ...] = ("certain", "likely", "possible")
        return Reason(
            cause=cause.id if match.sub_reason is None else f"{cause.id}/{match.sub_reason}",
            certainty=max(cpu_op.explanation.certainty, match.certainty, key=levels.index),
            harm=words.harm,
            title=words.title,
            why=words.why,
            tie=_tie(blocker),
            evidence=evidence_shown(match.evidence, self._run),
            fixes=words.fixes,
        )

    def _found(self, finding: Finding) -> Reason:
        closer = "" if finding.sub_reason is None else f"/{finding.sub_reason}"
        return Reason(
            cause=f"{finding.cause}{closer}",
            certainty=finding.certainty,
            harm=finding.harm,
            title=finding.title,
            why=finding.why,
            tie="",
            evidence=evidence_shown(finding.evidence, self._run),
            fixes=finding.fixes,
        )

    def _devices(self, host: Host) -> Sequence[str]:
        return () if host.capture_file is None else machine_of(host.capture_file).devices

    def _open(self, cause: str, cpu_op: CpuOp) -> str:
        title = self._titles.get(cause, "")
        if cause == "dtype_unsupported" and cpu_op.explanation.types_missing:
            missing = listed([python_name(t) for t in cpu_op.explanation.types_missing])
            return f"if its dtype is {missing}"
        return title


def _tie(blocker: Blocker) -> str:
    """Return how a blocker is linked to its op; "" if its title names the resource."""
    if blocker.link == "resource" and blocker.kind in {BlockerKind.ASSIGNED, BlockerKind.RESOURCE}:
        return ""
    return _LINKS[blocker.link]


def _device(row: Any) -> str:  # noqa: ANN401 - a row of the op table
    if isinstance(row.device, str):
        return device_text(row.device) + (
            ", computed on the host" if row.placement == "host_memory" else ""
        )
    return _PLACEMENTS.get(str(row.placement), str(row.placement))

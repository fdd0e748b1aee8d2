"""All that is known of where single ops ran and why: gathered from a diagnosis, op by op."""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from traceanalyzer.attribution import cause_of
from traceanalyzer.causes import all_causes
from traceanalyzer.causes.knowledge.after_model import away_from_the_input
from traceanalyzer.causes.knowledge.candidates import SETTLED_BY, Candidates
from traceanalyzer.causes.knowledge.finding_text import blocker_text
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.format import counted, listed
from traceanalyzer.model import CaptureFileWhere, Evidence, SourceWhere, TraceWhere
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import device_text, machine_of
from traceanalyzer.placement.kernel_types import python_name
from traceanalyzer.placement.registry import nearest
from traceanalyzer.placement.support import support_of
from traceanalyzer.report.ruled_out import ruled_out
from traceanalyzer.report.sources import evidence_shown, shown_files
from traceanalyzer.report.text import sentence
from traceanalyzer.tables.functions import CONSTANTS
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS, Role
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator, Sequence

    from traceanalyzer.causes import Cause
    from traceanalyzer.cpu_ops import CpuOp
    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.findings import Finding
    from traceanalyzer.model import Certainty, Fix, Harm, RuledOut
    from traceanalyzer.placement.blocker import Blocker, Link
    from traceanalyzer.run import Host

_MOST: Final = 20  # ops that are shown
_SUGGESTED: Final = 3
_LINKS: Final[dict[Link, str]] = {
    "own": "",
    "resource": "it shares a resource with what does: ",
    "class": "a `_class` attribute puts it into one group with what does: ",
    "follows": "it follows what does: ",
}
_WITNESS: Final = {
    "sidecar": "the capture recorded what ran where",
    "kernel": "a kernel launched for it ran there",
    "compiled": "XLA made it part of a kernel",
    "input_pipeline": "it ran on behalf of tf.data",
    "executor": "a send names the device of the executor that ran it",
    "transfer": "a send or a copy tells of its far end",
    "allocator": "its output was allocated there",
    "host_event": "at host tracer level 2 only ops on a CPU leave an event",
    "no_gpu": "nothing in the trace shows that TensorFlow had a GPU",
    "registry": "no version of TensorFlow has a kernel for it on a GPU",
    "summary": "a summary was written right after it",
    "none": "nothing tells",
}
# Placements as the op table names them, where it has no device.
_PLACEMENTS: Final = {
    "cpu": "the CPU",
    "host_memory": "a GPU, computed on the host",
    "pluggable": "a pluggable device",
    "remote": "another task",
    "unknown": "not known",
    "xla": "what XLA compiled it for",
}
_MOVES: Final = "It would not be on the CPU there."
_MAY_STAY: Final = "It may be on the CPU there, too: {}."
_ON_HOST: Final = "It {} be placed on {} and computed on the host there, by design."
_HIDDEN: Final = "It would be on the CPU there only as long as the program hides the GPU."
_NOT_REPLAYED: Final = "Where it would be there is not known: the capture does not hold its node."
_CALLS_PYTHON: Final = (
    "It would not be placed on the CPU there; the Python that it calls runs on the host all the "
    "same."
)
_OTHER_ROLES: Final = {
    Role.INPUT_PIPELINE: "It is part of the input pipeline, which TensorFlow runs on the CPU "
    "unless the program asks for a GPU there.",
    Role.TRANSFER: "It moves data between devices; it computes nothing.",
    Role.RUNTIME: "It is TensorFlow's own work: it handles calls and their arguments.",
}


_FOLDED: Final = (
    "TensorFlow computed its value once, while it made the graph ready: constant folding, or a "
    "shape that Python needed. It does that on the CPU by design, with a GPU too, and no step runs "
    "the op."
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
    """Gather all that is known of the ops whose name or type an expression matches.

    Raises:
        NoSuchOpError: None matches; the message names types that are called alike.
    """
    run = diagnosis.run
    there = diagnosis.on_a_gpu
    assumed = {} if there is None else {**there.on_host, **there.cpu_ops}
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
    reasoner = _Reasoner(diagnosis, all_causes() if causes is None else causes)
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
        return f"{msg}; types like it: {', '.join(lowered[name] for name in alike)}"
    return f"{msg}; `traceanalyzer tables` writes all of its {counted(len(ops), 'op')}"


class _Reasoner:
    """Looks up what a diagnosis holds of single ops."""

    def __init__(self, diagnosis: Diagnosis, causes: Sequence[Cause]) -> None:
        self._diagnosis = diagnosis
        self._run = diagnosis.run
        self._causes = causes
        self._titles = {cause.id: cause.title for cause in causes}
        self._hosts = {host.name: host for host in self._run.hosts}
        self._version = None if self._run.version is None else self._run.version.value
        self._candidates = Candidates(self._run)

    def of(self, row: Any, file: str | None) -> OpReasoning:  # noqa: ANN401 - a row of the op table
        """Return what is known of one row."""
        cpu_op = self._diagnosis.cpu_ops.get(row.op_id)
        on_a_gpu = self._diagnosis.on_a_gpu
        assumed = None if on_a_gpu is None else on_a_gpu.cpu_ops.get(row.op_id)
        known = cpu_op or assumed
        stands_for = (
            "" if known is None or known.explanation.type == row.type else known.explanation.type
        )
        line = None if pd.isna(row.source_line) else int(row.source_line)
        types = row.input_types if isinstance(row.input_types, str) else None
        return OpReasoning(
            name=str(row.name),
            type=str(row.type),
            stands_for=stands_for,
            function=row.function if isinstance(row.function, str) else "",
            host=str(row.host) if len(self._hosts) > 1 else "",
            place="" if file is None else f"{file}:{line}" if line is not None else file,
            ran_on=_device(row),
            certainty=str(row.placement_certainty),
            witness=_WITNESS.get(str(row.placement_source), str(row.placement_source)),
            requested=row.requested_device if isinstance(row.requested_device, str) else None,
            input_types=None if types is None else tuple(map(python_name, _split(types))),
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
                said="Where it ran nothing tells.",
                reasons=reasons,
                settled_by=SETTLED_BY if host.capture_file is None else "",
            )
        if row.placement != "cpu":
            said = "" if reasons else "It is not on the CPU: nothing keeps it there."
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
            said="What keeps it on the CPU is not known.",
            settled_by=SETTLED_BY if host.capture_file is None else "",
        )

    def _on_a_gpu(self, row: Any, cpu_op: CpuOp | None) -> View | None:  # noqa: ANN401
        """Return where an op would be on a machine with a GPU, or None where nothing tells."""
        replay = self._diagnosis.on_a_gpu
        host = self._hosts[str(row.host)]
        if replay is None or host.capture_file is None or row.role != Role.COMPUTE:
            return None
        assumed = replay.assumption
        on_host = replay.on_host.get(row.op_id)
        cpu_op = cpu_op or on_host
        if row.op_id in replay.replaced:
            return View(assumed=assumed, said=f"{replay.replaced[row.op_id]}.")
        found = [f for f in replay.findings if row.op_id in f.op_ids]
        if cpu_op is None:
            said = _CALLS_PYTHON if row.type in PYTHON_CALLBACKS else _MOVES
            if row.op_id in replay.not_replayed:
                said = _NOT_REPLAYED
            if row.op_id in replay.unsure:
                said = _MAY_STAY.format(replay.unsure[row.op_id])
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
            said += " What would keep it there is not known."
        told = {sentence(t).rstrip("."): t for t in (*view.doubts, *replay.program_differs)}
        doubts = tuple(told.values())
        return replace(view, assumed=assumed, said=said, doubts=doubts)

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
            possible=tuple(self._possible(cpu_op, devices)),
            reasons=reasons,
            is_complete=explanation.is_complete and 0 < len(explanation.blockers) == len(reasons),
            ruled_out=tuple(ruled_out(self._run, host, cpu_op, causes)),
            doubts=tuple(text for text in (explanation.contradiction, explanation.doubt) if text),
        )

    def _reasons(self, cpu_op: CpuOp | None, found: Iterable[Finding]) -> tuple[Reason, ...]:
        """Return what holds an op, and the findings on it that rest on something else."""
        blocker = (
            []
            if cpu_op is None
            else [self._held(cpu_op, each) for each in cpu_op.explanation.blockers]
        )
        causes = {(reason.cause or "").partition("/")[0] for reason in blocker}
        others = [self._found(finding) for finding in found if finding.cause not in causes]
        return (*others, *blocker)

    def _held(self, cpu_op: CpuOp, blocker: Blocker) -> Reason:
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
            fixes=away_from_the_input(words.fixes, (cpu_op.op_id,), self._run),
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

    def _possible(self, cpu_op: CpuOp, devices: Sequence[str]) -> Iterator[str]:
        """Walk what was possible: the devices there are, the kernels there are for the op."""
        explanation = cpu_op.explanation
        if devices:
            yield f"Devices: {listed([device_text(d) for d in devices])}."
        kernels = nearest(self._version)
        support = support_of(kernels.registry, explanation.type)
        if support is None:
            return
        if explanation.kernels is not None and not explanation.doubt:
            kinds = " and ".join(f"the {kind}" for kind in explanation.kernels) or "no device"
            yield f"With its attributes, {explanation.type} has a kernel for {kinds}."
            return
        of = f"TensorFlow {kernels.registry.version}"
        if support.overall.gpu == "none":
            yield f"{explanation.type} has no GPU kernel in {of}."
        elif not explanation.types_missing and support.overall.gpu == "all":
            yield f"{explanation.type} has GPU kernels in {of}, whatever the type of its data."
        elif explanation.types_missing:
            missing = listed([python_name(t) for t in explanation.types_missing])
            yield f"{explanation.type} has GPU kernels in {of}, but none for {missing}."
        else:
            yield f"{explanation.type} has GPU kernels in {of}."

    def _open(self, cause: str, cpu_op: CpuOp) -> str:
        title = self._titles.get(cause, "")
        if cause == "dtype_unsupported" and cpu_op.explanation.types_missing:
            missing = listed([python_name(t) for t in cpu_op.explanation.types_missing])
            return f"if its data are of type {missing}"
        return title


def _tie(blocker: Blocker) -> str:
    """Return how what holds an op is tied to it; "" where its title names the resource."""
    if blocker.link == "resource" and blocker.kind in {BlockerKind.ASSIGNED, BlockerKind.RESOURCE}:
        return ""
    return _LINKS[blocker.link]


def _device(row: Any) -> str:  # noqa: ANN401 - a row of the op table
    if isinstance(row.device, str):
        return device_text(row.device) + (
            ", computed on the host" if row.placement == "host_memory" else ""
        )
    return _PLACEMENTS.get(str(row.placement), str(row.placement))


def _split(types: str) -> list[str]:
    return [t for t in types.split(";") if t]


def place_of(evidence: Evidence) -> str:
    """Return where a piece of evidence stands, "" for a fact outside of the run."""
    where = evidence.where
    if isinstance(where, SourceWhere):
        return where.file if where.line is None else f"{where.file}:{where.line}"
    if isinstance(where, CaptureFileWhere):
        return f"capture file: {where.sidecar}"
    if isinstance(where, TraceWhere):
        return f"trace: {where.plane}" + ("" if where.line is None else f", {where.line}")
    return ""

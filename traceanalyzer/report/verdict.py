"""The one sentence at the top of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.recorded_part import recorded_part
from traceanalyzer.format import counted, duration_text, percent_text
from traceanalyzer.placement.failure import failure
from traceanalyzer.report.spent import most_of_the_time
from traceanalyzer.report.text import sentence
from traceanalyzer.tables.vocabulary import Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from traceanalyzer.capture_file.document import Note
    from traceanalyzer.diagnosis import Diagnosis, OnAGpu
    from traceanalyzer.model import Finding
    from traceanalyzer.run import Run

__all__ = ["Shown", "verdict"]

_NO_GPU: Final = "no_gpu_visible"
_OTHER_WORK: Final = frozenset({"work_after_the_recording", "work_of_child_processes"})
_NOT_TOLD: Final = "why is not told by the trace"
_OP_LEVEL: Final = 2  # host tracer level from which ops leave events


@dataclass(frozen=True, eq=False, kw_only=True)
class Shown:
    """The ops of a run that ran on the CPU, and their cost.

    Attributes:
        run: The run.
        on_cpu: Its CPU-placed ops, input pipeline and runtime overhead not counted.
        explained: Shares of their time by certainty.
        findings: The findings, the most expensive first.
        exposed_ps: How long devices waited for these ops per step, None where it is not known.
        step_ps: How long the same steps take, the mean: a share of them is one of the same whole.
    """

    run: Run
    on_cpu: pd.DataFrame
    explained: Mapping[str, float | None]
    findings: Sequence[Finding]
    exposed_ps: float | None
    step_ps: float | None

    @property
    def explained_share(self) -> float:
        """The share of their time that is explained."""
        return (self.explained.get("certain") or 0.0) + (self.explained.get("likely") or 0.0)

    @property
    def took(self) -> str:
        """Their time."""
        return duration_text(int(self.on_cpu["host_self_ps"].sum()))


def verdict(diagnosis: Diagnosis, shown: Shown) -> str:
    """Say what takes most of the time, what costs most of that, and how much was recorded.

    Args:
        diagnosis: What is known of the run, and of the same on a machine with a GPU.
        shown: What the run shows.
    """
    run = diagnosis.run
    said = _of_program(shown)
    if diagnosis.on_a_gpu is not None and diagnosis.on_a_gpu.replayed:
        said += f" {_with_a_gpu(diagnosis.on_a_gpu)}"
    said += _recorded(run)
    notes = (note for h in run.hosts if h.capture_file for note in h.capture_file.notes)
    messages = dict.fromkeys(n.message.partition(";")[0] for n in notes if _is_of_other_work(n))
    return " ".join([said, *(f"{m[:1].upper()}{m[1:]}." for m in messages)])


def _recorded(run: Run) -> str:
    """Say how much of the program was recorded, where much of it was not."""
    for host in run.hosts:
        part = recorded_part(host.capture_file, host.session) if host.capture_file else None
        if part is not None and not part.is_nearly_all:
            return f" Recorded: {part}."
    return ""


def _is_of_other_work(note: Note) -> bool:
    """Return whether a note says that much of the work was not recorded."""
    return note.severity == "warning" and note.id in _OTHER_WORK


def _of_program(shown: Shown) -> str:
    """Say what the program's own process shows, and what error ended it."""
    run, on_cpu = shown.run, shown.on_cpu
    failed = next(
        filter(None, (failure(h.capture_file) for h in run.hosts if h.capture_file)), None
    )
    if failed is None:
        return _of_what_ran(shown)
    where = f" at {failed.at}" if failed.at else ""
    why = failed.requires or f"{failed.error.type}: {failed.said}"
    ended = f"The program failed{where}: {why.rstrip('.')}."
    if failed.obstacle:
        ended += f" {sentence(failed.obstacle)}"
    if run.ops.empty or (on_cpu.empty and not run.gpu_used):
        return f"{ended} No op was recorded before."
    if failed.missing and not run.gpu_used:
        return f"{ended} {counted(len(on_cpu), 'op')} ran on the CPU before ({shown.took})."
    return f"{ended} Before that: {_of_what_ran(shown)}"


def _of_what_ran(shown: Shown) -> str:
    """Say in one sentence what the ops that ran show."""
    run, on_cpu = shown.run, shown.on_cpu
    ops = run.ops
    if ops.empty:
        return "The trace holds no op, so there is no placement to explain."
    placements = ops["placement"].astype(str)
    compiled = int(placements.str.startswith(("xla", "tpu")).sum())
    doubt = _doubt(run, ops[(placements == "unknown") & (ops["role"] == Role.COMPUTE)])
    if compiled and on_cpu.empty:
        return (
            f"The trace holds {counted(compiled, 'XLA op')}, compiled for the accelerator, and no "
            f"TensorFlow op is seen on a CPU: there is no placement to explain{doubt}."
        )
    ran = f"{counted(len(on_cpu), 'op') if len(on_cpu) else 'no op'} ran on the CPU"
    facts = [h.tables.facts for h in run.hosts]
    if any(f.pluggable_used for f in facts):
        return (
            f"A pluggable device was used, whose own work is not in the trace; {ran} beside it "
            f"({shown.took}){doubt}."
        )
    if not run.gpu_used and not any("TPU" in name for f in facts for name in f.accelerators):
        most = most_of_the_time(run)
        # The sentence about the largest part already gives the time of CPU ops.
        also = "" if most or on_cpu.empty else f" ({shown.took})"
        return f"{most}{_without_gpu(run, shown.findings, ran)}{also}{doubt}."
    if on_cpu.empty:
        rest = "what is seen there is the input pipeline and TensorFlow's own bookkeeping"
        said = f"No computation of the model is seen on the CPU: {rest}{doubt}."
        return f"{most_of_the_time(run)}{said}"
    return f"{most_of_the_time(run)}{_beside(shown)}{doubt}."


def _beside(shown: Shown) -> str:
    """Say what ops on the CPU cost beside a device that computed: of each step, where known."""
    share, exposed_ps = shown.explained_share, shown.exposed_ps
    ops = counted(len(shown.on_cpu), "op")
    costliest = next((f for f in shown.findings if f.harm == "harmful"), None)
    most = "" if costliest is None else f", first of all: {costliest.title}"
    if exposed_ps and shown.step_ps:
        device = "GPU" if shown.run.gpu_used else "accelerator"
        part = percent_text(min(1.0, exposed_ps / shown.step_ps))
        whose = "its" if len(shown.on_cpu) == 1 else "their"
        why = f"{percent_text(share)} of {whose} time is explained" if share else _NOT_TOLD
        return (
            f"In a step of {duration_text(int(shown.step_ps))}, on average, the {device} waits "
            f"{duration_text(int(exposed_ps))} ({part}) for {ops} on the CPU{most}; {why}"
        )
    took = shown.took
    if exposed_ps is not None:
        took += f", for which it waited {duration_text(int(exposed_ps))} a step"
    why = f"{percent_text(share)} of that time is explained" if share else _NOT_TOLD
    return f"{ops} ran on the CPU beside the accelerator ({took}); {why}{most}"


def _without_gpu(run: Run, findings: Sequence[Finding], ran: str) -> str:
    """Say that TensorFlow used no GPU, and why where a capture tells."""
    ran = f"{ran}, input pipeline not counted"
    known = next((f for f in findings if f.cause == _NO_GPU and f.certainty == "certain"), None)
    if known is not None:
        return f"{known.title}; {ran}"
    described = any(h.tables.facts.accelerators for h in run.hosts)
    although = ", although the machine has one" if described else ""
    return f"As far as the trace shows, TensorFlow used no GPU{although}: {ran}"


def _with_a_gpu(there: OnAGpu) -> str:
    """Say how many of the replayed ops would run on the CPU of a machine with a GPU, or may."""
    said = _surely_with_a_gpu(there)
    if not there.unsure:
        return said
    reason = next(iter(there.unsure.values()))
    return f"{said} {counted(len(there.unsure), 'other op')} may: {reason}."


def _surely_with_a_gpu(there: OnAGpu) -> str:
    when = "With a GPU that the program does not hide" if there.hides_gpus else "With a GPU"
    if not there.cpu_ops:
        none = "no recorded op outside the input pipeline would run on the CPU"
        if there.not_replayed:
            none = f"none of the {counted(there.replayed, 'op')} replayed would run on the CPU"
            return f"{when}, {none}; {len(there.not_replayed):,} could not be replayed."
        return f"{when}, {none} ({there.replayed:,} replayed)."
    replayed, left = counted(there.replayed, "op"), ""
    if there.not_replayed:
        replayed += " replayed"
        left = f"; {len(there.not_replayed):,} could not be replayed"
    harmful = (f for f in there.findings if f.harm == "harmful")
    first = next((f for f in harmful if not there.cpu_ops.keys().isdisjoint(f.op_ids)), None)
    most = "" if first is None else f", first of all: {first.title}"
    if first is None and not there.unexplained:
        most = ", which does no harm" if len(there.cpu_ops) == 1 else ", none of which does harm"
    certain = {
        op_id
        for finding in there.findings
        if finding.certainty == "certain"
        for op_id in (*finding.op_ids, *finding.dragged_along)
    }
    sure = len(there.cpu_ops.keys() & certain)
    may = len(there.cpu_ops) - sure
    unless = "; the program may do something else there" if may and there.program_differs else ""
    if first is not None and first.certainty == "possible":
        doubts = (there.cpu_ops[at].explanation.doubt for at in first.op_ids if at in there.cpu_ops)
        unless = next((f"; {doubt}" for doubt in doubts if doubt), unless)
    if not sure:
        ops = f"{may:,} of {replayed} may still run on the CPU"
    else:
        also = f", and {may:,} more may" if may else ""
        ops = f"{sure:,} of {replayed} would still run on the CPU{also}"
    return f"{when}, {ops}{most}{unless}{left}."


def _doubt(run: Run, unknown: pd.DataFrame) -> str:
    """Say what the sentence leaves open: ops of unknown place, and what was not recorded."""
    facts = [h.tables.facts for h in run.hosts]
    if not all(f.has_host_plane for f in facts) or any(f.host_level < _OP_LEVEL for f in facts):
        return "; but host threads were not recorded in a way that shows CPU ops"
    if len(unknown):
        took = duration_text(int(unknown["host_self_ps"].sum()))
        return f"; for {counted(len(unknown), 'op')} ({took}) the trace does not tell where"
    return ""

"""The verdict at the top of a report: what happened, what it costs, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.recorded_run import recorded_part
from traceanalyzer.format import counted, duration_text, percent_text
from traceanalyzer.placement.on_a_gpu import failure
from traceanalyzer.report.spent import most_of_the_time
from traceanalyzer.report.text import sentence
from traceanalyzer.tables.vocabulary import Role

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd

    from traceanalyzer.diagnosis import Diagnosis, OnAGpu
    from traceanalyzer.model import Finding
    from traceanalyzer.run import Run

_NO_GPU: Final = "no_gpu_visible"
_OTHER_WORK: Final = frozenset({"work_after_the_recording", "work_of_child_processes"})
_OP_LEVEL: Final = 2  # host tracer level from which ops leave events
_ROUNDING: Final = 1e-9  # by which the sum of two shares may fall short of 1
_NOT_EXPLAINED: Final = "The trace does not show why."


@dataclass(frozen=True, eq=False, kw_only=True)
class Shown:
    """The ops of a run that ran on the CPU, and their cost."""

    run: Run
    on_cpu: pd.DataFrame  # rows of the op table: without input pipeline and runtime
    explained: Mapping[str, float | None]  # shares of their time by certainty
    findings: Sequence[Finding]  # the most expensive first
    exposed_ps: float | None  # per step, how long devices waited for these ops
    step_ps: float | None  # the mean duration of the same steps

    @property
    def duration(self) -> str:
        """The time that these ops took."""
        return duration_text(int(self.on_cpu["host_self_ps"].sum()))

    @property
    def ran(self) -> str:
        """How many ops ran on the CPU, and how long they took."""
        if self.on_cpu.empty:
            return "no op ran on the CPU"
        return f"{counted(len(self.on_cpu), 'op')} ran on the CPU ({self.duration})"


def verdict(diagnosis: Diagnosis, shown: Shown) -> str:
    """Return the verdict in a few sentences."""
    run, there = diagnosis.run, diagnosis.on_a_gpu
    sentences = [*_of_program(shown)]
    if there is not None and there.analysis.replayed:
        sentences += _with_a_gpu(there)
    parts = [recorded_part(h.capture_file, h.session) for h in run.hosts if h.capture_file]
    sentences += [f"Recorded: {part}." for part in parts if part and not part.is_nearly_all][:1]
    notes = [note for h in run.hosts if h.capture_file for note in h.capture_file.notes]
    missing = [n.message for n in notes if n.severity == "warning" and n.id in _OTHER_WORK]
    sentences += dict.fromkeys(sentence(message.partition(";")[0]) for message in missing)
    return " ".join(sentences)


def _of_program(shown: Shown) -> list[str]:
    """Say what the program's own process shows, and which error ended it."""
    run = shown.run
    failures = (failure(h.capture_file) for h in run.hosts if h.capture_file)
    failed = next((found for found in failures if found is not None), None)
    if failed is None:
        return _of_what_ran(shown)
    where = f" at {failed.at}" if failed.at else ""
    why = failed.requires or f"{failed.error.type}: {failed.said}"
    ended = [f"The program failed{where}: {why.rstrip('.')}."]
    if failed.obstacle:
        ended.append(sentence(failed.obstacle))
    if run.ops.empty or (shown.on_cpu.empty and not run.gpu_used):
        return [*ended, "No op was recorded before that."]
    if failed.missing and not run.gpu_used:
        return [*ended, f"Before that, {shown.ran}."]
    return [*ended, "Before that:", *_of_what_ran(shown)]


def _of_what_ran(shown: Shown) -> list[str]:
    run, on_cpu = shown.run, shown.on_cpu
    ops = run.ops
    if ops.empty:
        return ["The trace contains no ops, so there is nothing to explain."]
    placements = ops["placement"].astype(str)
    compiled = int(placements.str.startswith(("xla", "tpu")).sum())
    doubt = _doubt(run, ops[(placements == "unknown") & (ops["role"] == Role.COMPUTE)])
    if compiled and on_cpu.empty:
        ran = f"{counted(compiled, 'XLA op')} ran on the accelerator"
        return [f"There is nothing to explain: {ran}, and no TensorFlow op on the CPU.", *doubt]
    facts = [h.tables.facts for h in run.hosts]
    if any(f.pluggable_used for f in facts):
        used = "A pluggable device was used; its work is not in the trace."
        return [used, sentence(shown.ran), *doubt]
    if not run.gpu_used and not any("TPU" in name for f in facts for name in f.accelerators):
        said = _without_gpu(shown)
    elif not on_cpu.empty:
        said = _beside_device(shown)
    elif doubt:
        said = ["No op of the model is known to run on the CPU."]
    else:
        said = [f"The model runs entirely on the {'GPU' if run.gpu_used else 'accelerator'}."]
    return [*most_of_the_time(run), *said, *doubt]


def _beside_device(shown: Shown) -> list[str]:
    """Say what ops on the CPU cost beside a device that computed."""
    ops = counted(len(shown.on_cpu), "op")
    device = "GPU" if shown.run.gpu_used else "accelerator"
    part = (shown.explained.get("certain") or 0.0) + (shown.explained.get("likely") or 0.0)
    whose = "its" if len(shown.on_cpu) == 1 else "their"
    why = sentence(f"{_share(part)} of {whose} time is explained") if part else _NOT_EXPLAINED
    costliest = next((f for f in shown.findings if f.harm == "harmful"), None)
    first = [] if costliest is None else [f"Start with: {costliest.title}."]
    if shown.exposed_ps and shown.step_ps:
        waits = f"{duration_text(shown.exposed_ps)} of each {duration_text(shown.step_ps)} step"
        share = percent_text(min(1.0, shown.exposed_ps / shown.step_ps))
        return [f"The {device} waits {waits} ({share}) for {ops} on the CPU.", *first, why]
    if shown.exposed_ps is None:
        return [f"{shown.ran}; whether the {device} waited for {_them(shown)} is unknown.", *first,
                why]  # fmt: skip
    cost = f"{shown.ran}, and the {device} never waited for {_them(shown)}."
    return [f"CPU placement costs nothing here: {cost}", why]


def _them(shown: Shown) -> str:
    return "it" if len(shown.on_cpu) == 1 else "them"


def _without_gpu(shown: Shown) -> list[str]:
    """Say that TensorFlow used no GPU, and why if a capture shows it."""
    run = shown.run
    certain = (f for f in shown.findings if f.cause == _NO_GPU and f.certainty == "certain")
    known = next(certain, None)
    has_one = any(h.tables.facts.accelerators for h in run.hosts)
    why = "No GPU was used" + (", although the machine has one" if has_one else "")
    is_computing = (run.ops["role"] == Role.COMPUTE) & ~run.ops["in_input_pipeline"]
    everything = "All " if len(shown.on_cpu) == int(is_computing.sum()) > 1 else ""
    return [sentence(why if known is None else known.title), sentence(everything + shown.ran)]


def _with_a_gpu(there: OnAGpu) -> list[str]:
    """Say how many of the replayed ops would run on the CPU of a machine with a GPU."""
    analysis = there.analysis
    when = "With a GPU that the program does not hide" if there.hides_gpus else "With a GPU"
    replayed = counted(analysis.replayed, "op")
    left = f"{counted(len(analysis.not_replayed), 'op')} could not be replayed."
    unsure = list(analysis.unsure.values())
    may = [f"{counted(len(unsure), 'other op')} may: {unsure[0]}."] if unsure else []
    if not analysis.cpu_ops:
        said = f"{when}, none of the {replayed} replayed would run on the CPU."
    else:
        certain = {
            op_id
            for finding in there.findings
            if finding.certainty == "certain"
            for op_id in (*finding.op_ids, *finding.dragged_along)
        }
        sure = len(analysis.cpu_ops.keys() & certain)
        rest = len(analysis.cpu_ops) - sure
        also = f", and {rest:,} more may" if rest else ""
        ops = f"{sure:,} of {replayed} would still run on the CPU{also}"
        if not sure:
            ops = f"{rest:,} of {replayed} may still run on the CPU"
        said = " ".join([f"{when}, {ops}.", *_first_there(there, is_doubtful=rest > 0)])
    return [said, *([left] if analysis.not_replayed else []), *may]


def _first_there(there: OnAGpu, *, is_doubtful: bool) -> list[str]:
    """Say what to start with, and why the program may behave differently."""
    cpu_ops = there.analysis.cpu_ops
    harmful = (f for f in there.findings if f.harm == "harmful")
    first = next((f for f in harmful if not cpu_ops.keys().isdisjoint(f.op_ids)), None)
    if first is None:
        return [] if there.unexplained else ["That is harmless."]
    said = [f"Start with: {first.title}."]
    doubts: list[str] = []
    if first.certainty == "possible":
        found = (cpu_ops[at].explanation.doubt for at in first.op_ids if at in cpu_ops)
        doubts = [sentence(doubt) for doubt in found if doubt][:1]
    if not doubts and is_doubtful and there.program_differs:
        doubts = ["The program may behave differently there."]
    return said + doubts


def _doubt(run: Run, unknown: pd.DataFrame) -> list[str]:
    """Say what the verdict leaves open."""
    facts = [h.tables.facts for h in run.hosts]
    if not all(f.has_host_plane for f in facts) or any(f.host_level < _OP_LEVEL for f in facts):
        return ["The trace does not record CPU ops: its host events are missing or too coarse."]
    if unknown.empty:
        return []
    ops = f"{counted(len(unknown), 'op')} ({duration_text(int(unknown['host_self_ps'].sum()))})"
    them = "it" if len(unknown) == 1 else "them"
    return [f"For {ops}, the trace does not show which device ran {them}."]


def _share(part: float) -> str:
    return percent_text(1.0 if part > 1 - _ROUNDING else part)

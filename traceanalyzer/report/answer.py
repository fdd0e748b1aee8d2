"""The answer at the top: what happened, what it costs, where, and what to do next."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.recorded_run import recorded_part
from traceanalyzer.format import counted, listed
from traceanalyzer.model.blocks import Code, Line, Link, Strong
from traceanalyzer.report.changes import saving_text
from traceanalyzer.report.records import source_lines
from traceanalyzer.report.steps import PARTS
from traceanalyzer.report.text import listing, part, prose, sentence, time
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from traceanalyzer.model.blocks import Inline, Text
    from traceanalyzer.model.changes import Change
    from traceanalyzer.model.figures import StepPart
    from traceanalyzer.report.page_facts import PageFacts

_NEARLY_ALL: Final = 0.95  # share of the wait from which a single place is named
_MOST: Final = 0.5
_OP_LEVEL: Final = 2  # lowest host tracer level that records ops
_WORTH_NAMING: Final = 0.05  # of a step
_MOSTLY_COMPUTING: Final = 0.7  # of a step
_FEWEST_STEPS: Final = 3
_BESIDE_OPS: Final[tuple[StepPart, ...]] = (
    "input",
    "launch",
    "runtime",
    "program",
)  # beside a GPU's own work
_NAMES: Final = {part.kind: part.name for part in PARTS}
_PLACED_WELL: Final = "Placement needs no change"
_RECORD: Final = "`traceanalyzer capture script.py`"
_NONE_KNOWN: Final = "No op of the model is known to run on the CPU."
_OTHER_WORK: Final = frozenset({"work_after_the_recording", "work_of_child_processes"})


def facts_of_the_bar(facts: PageFacts) -> tuple[str, ...]:
    """Return the run's name, hosts, TensorFlow version, devices, and steps, for the title bar."""
    run = facts.run
    found = [run.name, listed([host.name for host in run.hosts])]
    if run.version is not None:
        found.append(f"TensorFlow {run.version.value}")
    used = [d.device.rpartition("/device:")[2].partition(":")[0] for d in facts.devices if d.device]
    if used:
        found.append(counted(len(used), used[0]))
    elif not facts.other_device and not run.ops.empty:
        found.append("GPU used" if run.gpu_used else "no GPU used")
    if facts.has_steps:
        found.append(counted(facts.steps, "step"))
    recorded = [recorded_part(h.capture_file, h.session) for h in run.hosts if h.capture_file]
    found += [f"{part} recorded" for part in recorded if part and not part.is_nearly_all][:1]
    return tuple(text for text in found if text)


# --- what to do --------------------------------------------------------------------------------


def to_do(facts: PageFacts) -> Text:
    """Say what to do next: the first change, or what to look at."""
    if facts.failure is not None and not facts.failure.missing and facts.run.ops.empty:
        return prose("Fix the error, then record again.")
    if facts.changes:
        is_placed_well = facts.kind == "D" and not moves_ops(facts.changes)
        return (*([f"{_PLACED_WELL}. "] if is_placed_well else []), *_change(facts.changes[0]))
    return prose(_advice(facts))


def moves_ops(changes: Sequence[Change]) -> bool:
    """Return whether changes of the program move ops to a GPU."""
    return any(change.is_by_placement and change.kind != "gpu" for change in changes)


def _advice(facts: PageFacts) -> str:
    """Return what to do next if there is nothing to change."""
    if facts.kind == "D":
        return f"{_PLACED_WELL} for a machine with a GPU."
    if facts.kind == "E" and facts.on_cpu.empty and not (facts.other_device or facts.compiled):
        said = f"If this is a TensorFlow program, record its ops with {_RECORD}."
        return "" if facts.run.captured else said
    if facts.kind != "B" or not facts.step_us:
        return ""
    if facts.part_us("unknown") >= _MOST * facts.step_us:
        said = "The trace does not show what the GPU waits for most of the time"
        return f"{said}: record host threads too, with {_RECORD}."
    said = ""
    if facts.part_us("compute") >= _MOSTLY_COMPUTING * facts.step_us:
        said = (
            "To go faster, make the kernels faster: `traceanalyzer tables` lists them; mixed "
            "precision helps most models."
        )
    elif facts.steps < _FEWEST_STEPS:
        said = "Too few steps were recorded to say what would make them faster: record ten or more."
    return said if not said or _doubt(facts) else f"{_PLACED_WELL}. {said}"


def _change(change: Change) -> Text:
    title = Link(text=change.title.replace("`", ""), to=f"change-{change.id}")
    said: list[Inline] = [Strong(text="Do this next:"), " ", title]
    if change.place is not None:
        file, number = change.place
        said += [" (", Line(file=file, line=number), ")"]
    said.append(".")
    if change.candidates and change.candidates[0].check:
        first = change.candidates[0]
        named = first.title.rstrip(".")
        if not named[1:2].isupper():
            named = f"{named[:1].lower()}{named[1:]}"
        how = ("Check first", ": ") if change.kind == "gpu" else ("Most likely", "; check with ")
        said += [f" {how[0]}: ", *prose(named), how[1], Code(text=first.check), "."]
    saved = saving_text(change.saving)
    if saved and change.saving.kind != "proxy":
        subject = "A fix" if change.kind == "find_cause" else "It"
        said += [f" {subject} saves ", *saved, "."]
    return tuple(said)


# --- what happened -----------------------------------------------------------------------------


def happened(facts: PageFacts) -> Text:
    """Say what happened, what it costs, where, and what the trace does not show."""
    notes = [n for h in facts.run.hosts if h.capture_file for n in h.capture_file.notes]
    missing = [n.message for n in notes if n.severity == "warning" and n.id in _OTHER_WORK]
    left_out = dict.fromkeys(sentence(message.partition(";")[0]) for message in missing)
    return (*_of_program(facts), *(f" {each}" for each in left_out))


def _of_program(facts: PageFacts) -> Text:
    failed = facts.failure
    say = {"A": _costly, "B": _fine, "C": _without_gpu, "D": _predicted, "E": _nothing}
    what_ran = (*say[facts.kind](facts), *_doubt(facts))
    if failed is None:
        return what_ran
    file, _, number = failed.at.rpartition(":")
    at: Text = (" at ", Line(file=file, line=int(number))) if number.isdecimal() else ()
    why = failed.requires or f"{failed.error.type}: {failed.said}"
    said: Text = ("The program failed", *at, *prose(f": {why.rstrip('.')}."))
    if failed.obstacle:
        said = (*said, " ", *prose(sentence(failed.obstacle)))
    if facts.run.ops.empty or (facts.on_cpu.empty and not facts.run.gpu_used):
        return (*said, " No op was recorded before that.")
    return (*said, " Before that: ", *what_ran)


def _costly(facts: PageFacts) -> Text:
    if facts.wait_us is None or facts.wait_share is None:
        why = " The trace has no GPU kernels, so it does not show how long the GPU waited."
        return (*_took(facts, f"{_cpu_ops(facts)} ran on the CPU beside the GPU"), why)
    who = "The GPU waits " if len(facts.devices) == 1 else "On average, a GPU waits "
    waited = _of_a_step(facts, facts.wait_us)
    ops = counted(sum(us > 0 for us in facts.op_waits_us.values()), "op")
    said: Text = (who, *waited, f" for {ops} on the CPU", *_where(facts), ".")
    return (*said, *_more_goes_to(facts, facts.wait_us, "The GPU waits longer for"))


def _cpu_ops(facts: PageFacts) -> str:
    return counted(len(facts.on_cpu), "op")


def _of_a_step(facts: PageFacts, us: float) -> Text:
    """Return a time and its share of a step, or of the mean step if there are several."""
    whole, share = time(facts.step_us or 0.0), part(us / (facts.step_us or us))
    if facts.has_steps and facts.steps != 1:
        return (time(us), " per step (", share, " of the mean, ", whole, ")")
    return (time(us), " of the ", whole, " step" * facts.has_steps, " recorded (", share, ")")


def _more_goes_to(facts: PageFacts, us: float, verb: str) -> Text:
    """Name the part that takes more of the step than CPU placement, GPU work excluded."""
    took, kind = max((facts.part_us(kind), kind) for kind in _BESIDE_OPS)
    if took <= us or not facts.step_us:
        return ()
    the = "the " if kind == "runtime" else ""
    return (f" {verb} {the}{_NAMES[kind]} (", part(took / facts.step_us), ").")


def _where(facts: PageFacts) -> Text:
    """Name the place that causes most of the cost, if there is one."""
    by_place = defaultdict[Line | Code, float](float)
    ops = zip(source_lines(facts.on_cpu, facts.run), facts.on_cpu["type"], strict=True)
    for (line, op_type), us in zip(ops, facts.op_waits_us.values(), strict=True):
        by_place[line or Code(text=str(op_type))] += us
    total, (place, most) = sum(by_place.values()), max(by_place.items(), key=lambda item: item[1])
    if not total or most < _MOST * total:
        return ()
    all_of_it = ", all" if most >= _NEARLY_ALL * total else ", most of it"
    return (all_of_it, " at " if isinstance(place, Line) else " for ", place)


def _fine(facts: PageFacts) -> Text:
    if facts.on_cpu.empty:
        is_sure = not _doubt(facts)
        known = "The model runs entirely on the GPU." if is_sure else _NONE_KNOWN
        return (known, *_shares(facts))
    them = "it" if len(facts.on_cpu) == 1 else "them"
    how: Text = (f" and the GPU never waited for {them}.",)
    if facts.wait_us is None:
        how = (", by design or only once.",)
    elif facts.wait_us:
        how = (" and the GPU waits only ", *_of_a_step(facts, facts.wait_us), f" for {them}.")
    ran = (f"{_cpu_ops(facts)} (", _host_time(facts.on_cpu), ") ran on the CPU")
    return ("Placement is not your bottleneck: ", *ran, *how, *_shares(facts))


def _shares(facts: PageFacts) -> Text:
    """Name the parts that take most of a step."""
    if not facts.has_gpu_times or not facts.step_us:
        return ()
    took = {kind: facts.part_us(kind) / facts.step_us for kind in _NAMES}
    unknown = took.pop("unknown")
    named = sorted((k for k in took if took[k] >= _WORTH_NAMING), key=lambda kind: -took[kind])
    said: Text = ()
    if named:
        a_step = (" The mean step, ", ", is ") if facts.steps > 1 else (" The ", " step is ")
        before, after = a_step if facts.has_steps else (" The ", " recorded are ")
        parts = [(part(took[kind]), f" {_NAMES[kind]}") for kind in named[:4]]
        said = (before, time(facts.step_us), after, *listing(parts, most=4), ".")
    if unknown >= _WORTH_NAMING:
        of = "a step" if facts.has_steps else "the time"
        said = (*said, " For ", part(unknown), f" of {of}, the trace does not show what happened.")
    return said


def _without_gpu(facts: PageFacts) -> Text:
    """Say that TensorFlow used no GPU, and how long the CPU ops take."""
    ops, number = facts.run.ops, len(facts.on_cpu)
    is_input = ops["in_input_pipeline"]
    said = f" {_cpu_ops(facts)}"
    if 1 < number == int(((ops["role"] == Role.COMPUTE) & ~is_input).sum()):
        said = f" All{said}" + " outside the input pipeline" * bool(is_input.any())
    return (*_no_gpu(facts), *_took(facts, f"{said} ran on the CPU"))


def _took(facts: PageFacts, ran: str) -> Text:
    """Say that the CPU ops ran, and how much of a step they take."""
    ops_us = facts.part_us("cpu_op")
    if not facts.has_steps or not facts.step_us or not ops_us:
        return (f"{ran} (", _host_time(facts.on_cpu), ").")
    takes = "takes" if len(facts.on_cpu) == 1 else "take"
    more = _more_goes_to(facts, ops_us, "More goes to")
    return (f"{ran} and {takes} ", *_of_a_step(facts, ops_us), ".", *more)


def _host_time(ops: pd.DataFrame) -> Inline:
    return time(int(ops["host_self_ps"].sum()) / PS_PER_US)


def _no_gpu(facts: PageFacts) -> Text:
    """Say that no GPU was used, and why if a capture shows it."""
    if facts.why_no_gpu is not None:
        return prose(sentence(facts.why_no_gpu.title))
    has_one = any(h.tables.facts.accelerators for h in facts.run.hosts)
    return ("No GPU was used" + (", although the machine has one." if has_one else "."),)


def _predicted(facts: PageFacts) -> Text:
    """Say where the ops would be with a GPU, and why there was none."""
    there, counts = facts.diagnosis.on_a_gpu, facts.with_a_gpu
    if there is None:
        return _no_gpu(facts)
    when = "With a GPU that the program does not hide" if there.hides_gpus else "With a GPU"
    stay = len(facts.stay_on_cpu)
    if not stay:
        said = f"{when}, all {counts.on_gpu:,} ops" if counts.on_gpu > 1 else f"{when}, the op"
        said += " that could be replayed would" if counts.unknown else " would"
        said += " run on it"
    else:
        once = f", {counts.on_cpu_once:,} of them only once" if counts.on_cpu_once else ""
        once = ", only once" if counts.on_cpu_once == stay else once
        would = "would" if facts.stay_for_certain else "may"
        why = " by design" if facts.stay_on_cpu <= facts.by_design else ""
        said = f"{when}, {counts.on_gpu:,} of {counted(sum(counts), 'op')} would run on it"
        said += f"; {stay:,} {would} stay on the CPU{why}{once}"
    unknown = f"; for {counts.unknown:,} it is unknown" if counts.unknown else ""
    return (f"{said}{unknown}. ", *_no_gpu(facts))


def _nothing(facts: PageFacts) -> Text:
    if facts.run.ops.empty:
        return ("The trace contains no ops, so there is nothing to explain.",)
    if facts.other_device == "pluggable device" or not facts.on_cpu.empty:
        used = f"A {facts.other_device} was used."
        if facts.other_device == "pluggable device":
            used = "A pluggable device (such as Metal) was used; its work is not in the trace."
        return (f"{used} {_cpu_ops(facts)} ran on the CPU (", _host_time(facts.on_cpu), ").")
    if facts.compiled:
        ran = f"{counted(facts.compiled, 'XLA op')} ran on the accelerator"
        return (f"No TensorFlow op ran on the CPU; {ran}.", *_shares(facts))
    return (f"{_NONE_KNOWN} There is nothing to explain.",)


def _doubt(facts: PageFacts) -> Text:
    """Name the facts that the trace does not show."""
    if facts.run.ops.empty:
        return ()
    seen = [h.tables.facts for h in facts.run.hosts]
    if not all(f.has_host_plane for f in seen) or any(f.host_level < _OP_LEVEL for f in seen):
        return (" The trace does not record CPU ops: its host events are missing or too coarse.",)
    ops = facts.run.ops
    unknown = ops[(ops["placement"] == "unknown") & (ops["role"] == Role.COMPUTE)]
    if unknown.empty:
        return ()
    them = "it" if len(unknown) == 1 else "them"
    start = f" For {counted(len(unknown), 'op')} ("
    return (start, _host_time(unknown), f"), the trace does not show which device ran {them}.")

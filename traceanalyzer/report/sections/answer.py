"""The answer at the top: what happened, what it costs, where, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pandas as pd

from traceanalyzer.capture_file.recorded_run import recorded_part
from traceanalyzer.format import counted, duration_text, listed
from traceanalyzer.model.blocks import Code, Link, Strong
from traceanalyzer.report.inline import line, listing, part, prose, time
from traceanalyzer.report.sections.changes import saving_text
from traceanalyzer.report.text import sentence
from traceanalyzer.source_files import shown_files
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from traceanalyzer.model.blocks import BarPart, Inline, Text
    from traceanalyzer.model.changes import Change
    from traceanalyzer.report.page_facts import PageFacts

_NO_GPU: Final = "no_gpu_visible"
_NEARLY_ALL: Final = 0.95  # of the wait, for one place to be named alone
_MOST: Final = 0.5
_OP_LEVEL: Final = 2  # host tracer level from which ops leave events
_WORTH_NAMING: Final = 0.05  # of a step
_MOSTLY_COMPUTING: Final = 0.7  # of a step
_PARTS: Final[tuple[tuple[BarPart, str], ...]] = (
    ("compute", "compute"),
    ("transfer", "transfers"),
    ("cpu_op", "CPU ops"),
    ("input", "input"),
    ("launch", "kernel launch"),
    ("runtime", "TensorFlow runtime"),
    ("program", "your program"),
    ("unknown", "unknown"),
)
_COMPUTES: Final = (
    "Placement needs no change. To go faster, make the kernels faster: `traceanalyzer tables` "
    "lists them; mixed precision helps most models."
)
_UNKNOWN: Final = (
    "The trace does not show what the GPU waits for most of the time: record host threads too, "
    "with `traceanalyzer capture script.py`."
)
_OTHER_WORK: Final = frozenset({"work_after_the_recording", "work_of_child_processes"})


def facts_of_the_bar(facts: PageFacts) -> tuple[str, ...]:
    """Return the run, its hosts, TensorFlow's version, its devices, and its steps."""
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


def happened(facts: PageFacts) -> Text:
    """Say what happened, what it costs, and where."""
    return (*_of_program(facts), *_not_recorded(facts))


def to_do(facts: PageFacts) -> Text:
    """Say what to do next: the first change, or what to look at."""
    if facts.failure is not None and not facts.failure.missing and facts.run.ops.empty:
        return prose("Fix the error, then record again.")
    if facts.changes:
        first = facts.changes[0]
        is_placed_well = facts.kind == "D" and (first.kind == "gpu" or not first.is_by_placement)
        said = ("Placement needs no change. ",) if is_placed_well else ()
        return (*said, *_first_change(first))
    return _without_changes(facts)


def _without_changes(facts: PageFacts) -> Text:
    worst = next((f for f in facts.findings.values() if f.harm == "harmful" and f.fixes), None)
    if worst is not None and (facts.kind in {"A", "D"} or worst.certainty == "certain"):
        return (Strong(text="Start with:"), " ", *prose(sentence(worst.title)))
    if facts.kind == "D":
        return prose("Placement needs no change for a machine with a GPU.")
    if facts.kind != "B" or not facts.step_us:
        return ()
    if facts.part_us("compute") >= _MOSTLY_COMPUTING * facts.step_us:
        return prose(_COMPUTES)
    return prose(_UNKNOWN) if facts.part_us("unknown") >= _MOST * facts.step_us else ()


# --- what happened -----------------------------------------------------------------------------


def _of_program(facts: PageFacts) -> Text:
    failed = facts.failure
    if failed is None:
        return _of_what_ran(facts)
    file, _, number = failed.at.rpartition(":")
    at: Text = (" at ", line(file, int(number))) if number.isdecimal() else ()
    why = failed.requires or f"{failed.error.type}: {failed.said}"
    said: Text = ("The program failed", *at, *prose(f": {why.rstrip('.')}."))
    if failed.obstacle:
        said = (*said, " ", *prose(sentence(failed.obstacle)))
    if facts.run.ops.empty or (facts.on_cpu.empty and not facts.run.gpu_used):
        return (*said, " No op was recorded before that.")
    return (*said, " Before that: ", *_of_what_ran(facts))


def _not_recorded(facts: PageFacts) -> Text:
    """Say which work of the program the trace does not hold."""
    notes = [n for h in facts.run.hosts if h.capture_file for n in h.capture_file.notes]
    missing = [n.message for n in notes if n.severity == "warning" and n.id in _OTHER_WORK]
    said = dict.fromkeys(sentence(message.partition(";")[0]) for message in missing)
    return tuple(f" {each}" for each in said)


def _of_what_ran(facts: PageFacts) -> Text:
    say = {"A": _costly, "B": _fine, "C": _without_gpu, "D": _predicted, "E": _nothing}
    return (*say[facts.kind](facts), *_doubt(facts))


def _costly(facts: PageFacts) -> Text:
    ops = counted(len(facts.on_cpu), "op")
    if facts.wait_us is None or facts.wait_share is None:
        took = _took(facts, f"{ops} ran on the CPU beside the GPU", len(facts.on_cpu))
        why = "The trace has no GPU kernels, so it does not show how long the GPU waited."
        return (*took, f" {why}")
    waited = (time(facts.wait_us), *_of_a_step(facts), " (", part(facts.wait_share), ")")
    who = "The GPU waits " if len(facts.waits_us) == 1 else "On average, a GPU waits "
    said: Text = (who, *waited, f" for {ops} on the CPU", *_where(facts), ".")
    return (*said, *_more_goes_to(facts, facts.wait_us, "The GPU waits longer for"))


def _of_a_step(facts: PageFacts) -> Text:
    whole = time(facts.step_us or 0.0)
    if not facts.has_steps:
        return (" of the ", whole, " recorded")
    return (
        (" of each ", whole, " step") if facts.steps > 1 else (" of the ", whole, " step recorded")
    )


def _more_goes_to(facts: PageFacts, us: float, verb: str) -> Text:
    """Say what takes more of the step than CPU placement, apart from the GPU's own work."""
    took, name = max(
        (facts.part_us(kind), name)
        for kind, name in _PARTS
        if kind in {"input", "launch", "runtime", "program"}
    )
    if took <= us or not facts.step_us:
        return ()
    return (f" {verb} {_definite(name)} (", part(took / facts.step_us), ").")


def _definite(name: str) -> str:
    return f"the {name}" if name == "TensorFlow runtime" else name


def _where(facts: PageFacts) -> Text:
    """Name the place that most of the cost comes from, if there is one."""
    ops = facts.on_cpu
    files = shown_files(ops["source_file"], facts.run)
    by_place: dict[tuple[str, int, str], float] = {}
    for row, file in zip(ops.to_dict("records"), files, strict=True):
        place = ("", 0, str(row["type"]))
        if file is not None and not pd.isna(row["source_line"]):
            place = (file, int(row["source_line"]), "")
        by_place[place] = by_place.get(place, 0.0) + facts.op_waits_us[row["op_id"]]
    total = sum(by_place.values())
    (file, number, op_type), most = max(by_place.items(), key=lambda item: item[1])
    if not total or most < _MOST * total:
        return ()
    named: Text = (" at ", line(file, number)) if file else (" for ", Code(text=op_type))
    return (", all" if most >= _NEARLY_ALL * total else ", most of it", *named)


def _fine(facts: PageFacts) -> Text:
    on_cpu = len(facts.on_cpu)
    if not on_cpu and not _doubt(facts):
        said: Text = ("The model runs entirely on the GPU.",)
    elif not on_cpu:
        said = ("No op of the model is known to run on the CPU.",)
    elif facts.wait_us:
        wait = (time(facts.wait_us), *_of_a_step(facts), f" for {counted(on_cpu, 'CPU op')}.")
        said = ("Placement is not your bottleneck: the GPU waits only ", *wait)
    elif facts.wait_us is None:
        took = duration_text(int(facts.on_cpu["host_self_ps"].sum()))
        them = "is" if on_cpu == 1 else "are"
        ran = f"the {counted(on_cpu, 'op')} on the CPU ({took}) {them} there by design or ran once."
        said = (f"Placement is not your bottleneck: {ran}",)
    else:
        took = duration_text(int(facts.on_cpu["host_self_ps"].sum()))
        them = "it" if on_cpu == 1 else "them"
        ran = f"{counted(on_cpu, 'op')} ({took}) ran on the CPU"
        said = (f"CPU placement costs nothing here: {ran} and the GPU never waited for {them}.",)
    return (*said, *_shares(facts))


def _shares(facts: PageFacts) -> Text:
    """Say what a step consists of: the parts that take most of it."""
    if not facts.has_gpu_times or not facts.step_us:
        return ()
    took = {name: facts.part_us(kind) / facts.step_us for kind, name in _PARTS}
    unknown = took.pop("unknown")
    named = sorted((n for n in took if took[n] >= _WORTH_NAMING), key=lambda name: -took[name])
    said: Text = ()
    whole = time(facts.step_us)
    if named:
        said = (" Each ", whole, " step is ") if facts.steps > 1 else (" The ", whole, " step is ")
        said = said if facts.has_steps else (" The ", whole, " recorded are ")
        said += (*listing([(part(took[name]), f" {name}") for name in named[:4]], most=4), ".")
    if unknown >= _WORTH_NAMING:
        of = "a step" if facts.has_steps else "the time"
        said += (" For ", part(unknown), f" of {of}, the trace does not show what happened.")
    return said


def _without_gpu(facts: PageFacts) -> Text:
    """Say that TensorFlow used no GPU, and what CPU ops take."""
    run = facts.run
    is_computing = (run.ops["role"] == Role.COMPUTE) & ~run.ops["in_input_pipeline"]
    every = "All " if len(facts.on_cpu) == int(is_computing.sum()) > 1 else ""
    ops = f" {every}{counted(len(facts.on_cpu), 'op')}"
    if every and run.ops["in_input_pipeline"].any():
        ops += " outside the input pipeline"
    return (*_no_gpu(facts), *_took(facts, f"{ops} ran on the CPU", len(facts.on_cpu)))


def _took(facts: PageFacts, ran: str, number: int) -> Text:
    """Say that ops ran, and what they take of a step."""
    ops_us = facts.part_us("cpu_op")
    if not facts.has_steps or not facts.step_us or not ops_us:
        return (f"{ran} (", time(int(facts.on_cpu["host_self_ps"].sum()) / PS_PER_US), ").")
    took = (time(ops_us), *_of_a_step(facts), " (", part(ops_us / facts.step_us), ")")
    takes = "takes" if number == 1 else "take"
    return (f"{ran} and {takes} ", *took, ".", *_more_goes_to(facts, ops_us, "More goes to"))


def _no_gpu(facts: PageFacts) -> Text:
    """Say that no GPU was used, and why if a capture shows it."""
    certain = (f for f in facts.diagnosis.findings if f.cause == _NO_GPU)
    known = next((f for f in certain if f.certainty == "certain"), None)
    has_one = any(h.tables.facts.accelerators for h in facts.run.hosts)
    why = "No GPU was used" + (", although the machine has one." if has_one else ".")
    return (why,) if known is None else prose(sentence(known.title))


def _predicted(facts: PageFacts) -> Text:
    """Say where the ops would be with a GPU, and why there was none."""
    there, counts = facts.diagnosis.on_a_gpu, facts.with_a_gpu
    hides = there is not None and there.hides_gpus
    when = "With a GPU that the program does not hide" if hides else "With a GPU"
    stay = counts.on_cpu + counts.on_cpu_once
    if not stay:
        said = f"{when}, all {counts.on_gpu:,} ops" if counts.on_gpu > 1 else f"{when}, the op"
        said += " that could be replayed would" if counts.unknown else " would"
        said += " run on it"
    else:
        once = f", {counts.on_cpu_once:,} of them only once" if counts.on_cpu_once else ""
        once = ", only once" if counts.on_cpu_once == stay else once
        would = "would" if _is_certain(facts) else "may"
        why = " by design" if _stays_by_design(facts) else ""
        said = f"{when}, {counts.on_gpu:,} of {counted(counts.total, 'op')} would run on it"
        said += f"; {stay:,} {would} stay on the CPU{why}{once}"
    unknown = f"; for {counts.unknown:,} it is unknown" if counts.unknown else ""
    return (f"{said}{unknown}. ", *_no_gpu(facts))


def _stays_by_design(facts: PageFacts) -> bool:
    there = facts.diagnosis.on_a_gpu
    return there is not None and there.analysis.cpu_ops.keys() <= facts.by_design


def _is_certain(facts: PageFacts) -> bool:
    there = facts.diagnosis.on_a_gpu
    if there is None:
        return False
    certain = {
        op_id
        for finding in there.findings
        if finding.certainty == "certain"
        for op_id in (*finding.op_ids, *finding.dragged_along)
    }
    return there.analysis.cpu_ops.keys() <= certain


def _nothing(facts: PageFacts) -> Text:
    ops = facts.run.ops
    if ops.empty:
        return ("The trace contains no ops, so there is nothing to explain.",)
    if facts.other_device == "pluggable device" or len(facts.on_cpu):
        used = f"A {facts.other_device} was used."
        if facts.other_device == "pluggable device":
            used = "A pluggable device (such as Metal) was used; its work is not in the trace."
        took = time(int(facts.on_cpu["host_self_ps"].sum()) / PS_PER_US)
        return (f"{used} {counted(len(facts.on_cpu), 'op')} ran on the CPU (", took, ").")
    compiled = int(ops["placement"].astype(str).str.startswith(("xla", "tpu")).sum())
    if compiled:
        ran = f"{counted(compiled, 'XLA op')} ran on the accelerator"
        said = f"There is nothing to explain: {ran}, and no TensorFlow op on the CPU."
        return (said, *_shares(facts))
    return ("No op of the model is known to run on the CPU, so there is nothing to explain.",)


def _doubt(facts: PageFacts) -> Text:
    """Say what the trace leaves open."""
    if facts.run.ops.empty:
        return ()
    seen = [h.tables.facts for h in facts.run.hosts]
    if not all(f.has_host_plane for f in seen) or any(f.host_level < _OP_LEVEL for f in seen):
        return (" The trace does not record CPU ops: its host events are missing or too coarse.",)
    unknown = facts.unknown_ops
    if unknown.empty:
        return ()
    took = time(int(unknown["host_self_ps"].sum()) / PS_PER_US)
    them = "it" if len(unknown) == 1 else "them"
    start = f" For {counted(len(unknown), 'op')} ("
    return (start, took, f"), the trace does not show which device ran {them}.")


# --- what to do --------------------------------------------------------------------------------


def _first_change(change: Change) -> Text:
    title = Link(text=change.title.replace("`", ""), to=f"change-{change.id}")
    said: list[Inline] = [Strong(text="Do this next:"), " ", title]
    if change.place is not None:
        said += [" (", line(*change.place), ")"]
    said.append(".")
    if change.candidates:
        first = change.candidates[0]
        named = prose(_lower(first.title.rstrip(".")))
        how = "Check first" if change.kind == "gpu" else "Most likely"
        said += [f" {how}: ", *named, ": " if change.kind == "gpu" else "; check with "]
        said += [Code(text=first.check), "."]
    saved = saving_text(change.saving)
    if saved and change.saving.kind != "proxy":
        subject = "A fix" if change.kind == "find_cause" else "It"
        said += [f" {subject} saves ", *saved, "."]
    return tuple(said)


def _lower(title: str) -> str:
    second = title[1:2]
    return title if second.isupper() or not title else f"{title[0].lower()}{title[1:]}"

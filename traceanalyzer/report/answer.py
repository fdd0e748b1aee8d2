"""The answer at the top: what happened, what it costs, where, and what to do next."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import pandas as pd

from traceanalyzer.capture_file.recorded_run import recorded_part
from traceanalyzer.format import counted, duration_text, listed
from traceanalyzer.model.blocks import Code, Line, Link, Strong
from traceanalyzer.report.changes import saving_text
from traceanalyzer.report.text import listing, part, prose, sentence, time
from traceanalyzer.source_files import shown_files
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from traceanalyzer.model.blocks import Inline, Text
    from traceanalyzer.model.changes import Change
    from traceanalyzer.report.page_facts import PageFacts

_NO_GPU: Final = "no_gpu_visible"
_NEARLY_ALL: Final = 0.95  # share of the wait from which a single place is named
_MOST: Final = 0.5
_OP_LEVEL: Final = 2  # lowest host tracer level that records ops
_WORTH_NAMING: Final = 0.05  # of a step
_MOSTLY_COMPUTING: Final = 0.7  # of a step
_PARTS: Final[dict[str, str]] = {
    "compute": "compute",
    "transfer": "transfers",
    "cpu_op": "CPU ops",
    "input": "input",
    "launch": "kernel launch",
    "runtime": "TensorFlow runtime",
    "program": "your program",
}
_BESIDE_OPS: Final = ("input", "launch", "runtime", "program")  # beside a GPU's own work
_COMPUTES: Final = (
    "To go faster, make the kernels faster: `traceanalyzer tables` lists them; mixed precision "
    "helps most models."
)
_UNKNOWN: Final = (
    "The trace does not show what the GPU waits for most of the time: record host threads too, "
    "with `traceanalyzer capture script.py`."
)
_FEW_STEPS: Final = (
    "Too few steps were recorded to say what would make them faster: record ten or more."
)
_FEWEST_STEPS: Final = 3
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
        first = facts.changes[0]
        is_placed_well = facts.kind == "D" and (first.kind == "gpu" or not first.is_by_placement)
        well = ("Placement needs no change. ",) if is_placed_well else ()
        return (*well, *_first_change(first))
    worst = next((f for f in facts.findings.values() if f.harm == "harmful" and f.fixes), None)
    if worst is not None and (facts.kind in {"A", "D"} or worst.certainty == "certain"):
        return (Strong(text="Start with:"), " ", *prose(sentence(worst.title)))
    said = "Placement needs no change for a machine with a GPU." if facts.kind == "D" else ""
    if facts.kind == "B" and facts.step_us:
        said = _FEW_STEPS if facts.steps < _FEWEST_STEPS else ""
        said = _UNKNOWN if facts.part_us("unknown") >= _MOST * facts.step_us else said
        computes = facts.part_us("compute") >= _MOSTLY_COMPUTING * facts.step_us
        said = _COMPUTES if computes else said
        if said and said != _UNKNOWN and not _doubt(facts):
            said = f"Placement needs no change. {said}"
    return prose(said)


def _first_change(change: Change) -> Text:
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
        ran = f"{counted(len(facts.on_cpu), 'op')} ran on the CPU beside the GPU"
        took = _took(facts, ran, len(facts.on_cpu))
        why = "The trace has no GPU kernels, so it does not show how long the GPU waited."
        return (*took, f" {why}")
    who = "The GPU waits " if len(facts.waits_us) == 1 else "On average, a GPU waits "
    waited = (time(facts.wait_us), *_of_a_step(facts, facts.wait_share))
    ops = counted(sum(us > 0 for us in facts.op_waits_us.values()), "op")
    said: Text = (who, *waited, f" for {ops} on the CPU", *_where(facts), ".")
    return (*said, *_more_goes_to(facts, facts.wait_us, "The GPU waits longer for"))


def _of_a_step(facts: PageFacts, share: float) -> Text:
    """Return a time's share of a step, or of the mean step if there are several."""
    whole = time(facts.step_us or 0.0)
    if not facts.has_steps:
        return (" of the ", whole, " recorded (", part(share), ")")
    if facts.steps == 1:
        return (" of the ", whole, " step recorded (", part(share), ")")
    return (" per step (", part(share), " of the mean, ", whole, ")")


def _more_goes_to(facts: PageFacts, us: float, verb: str) -> Text:
    """Name the part that takes more of the step than CPU placement, GPU work excluded."""
    took, kind = max((facts.part_us(kind), kind) for kind in _BESIDE_OPS)
    if took <= us or not facts.step_us:
        return ()
    name = "the TensorFlow runtime" if kind == "runtime" else _PARTS[kind]
    return (f" {verb} {name} (", part(took / facts.step_us), ").")


def _where(facts: PageFacts) -> Text:
    """Name the place that causes most of the cost, if there is one."""
    ops, by_place = facts.on_cpu, defaultdict[Line | Code, float](float)
    files = shown_files(ops["source_file"], facts.run)
    for op, file in zip(ops.to_dict("records"), files, strict=True):
        place: Line | Code = Code(text=str(op["type"]))
        if file is not None and not pd.isna(op["source_line"]):
            place = Line(file=file, line=int(op["source_line"]))
        by_place[place] += facts.op_waits_us[op["op_id"]]
    total, (place, most) = sum(by_place.values()), max(by_place.items(), key=lambda item: item[1])
    if not total or most < _MOST * total:
        return ()
    all_of_it = ", all" if most >= _NEARLY_ALL * total else ", most of it"
    return (all_of_it, " at " if isinstance(place, Line) else " for ", place)


def _fine(facts: PageFacts) -> Text:
    on_cpu = counted(len(facts.on_cpu), "op")
    took = duration_text(int(facts.on_cpu["host_self_ps"].sum()))
    is_one = len(facts.on_cpu) == 1
    if facts.on_cpu.empty and not _doubt(facts):
        said: Text = ("The model runs entirely on the GPU.",)
    elif facts.on_cpu.empty:
        said = ("No op of the model is known to run on the CPU.",)
    elif facts.wait_us:
        waited = (time(facts.wait_us), *_of_a_step(facts, facts.wait_share or 0.0))
        said = ("Placement is not your bottleneck: the GPU waits only ", *waited)
        said = (*said, f" for {counted(len(facts.on_cpu), 'CPU op')}.")
    elif facts.wait_us is None:
        ran = f"the {on_cpu} on the CPU ({took}) {'is' if is_one else 'are'} there by design"
        said = (f"Placement is not your bottleneck: {ran} or ran once.",)
    else:
        ran = f"{on_cpu} ({took}) ran on the CPU and the GPU never waited for"
        said = (f"CPU placement costs nothing here: {ran} {'it' if is_one else 'them'}.",)
    return (*said, *_shares(facts))


def _shares(facts: PageFacts) -> Text:
    """Name the parts that take most of a step."""
    if not facts.has_gpu_times or not facts.step_us:
        return ()
    took = {name: facts.part_us(kind) / facts.step_us for kind, name in _PARTS.items()}
    unknown = facts.part_us("unknown") / facts.step_us
    named = sorted((n for n in took if took[n] >= _WORTH_NAMING), key=lambda name: -took[name])
    said: Text = ()
    if named:
        a_step = (" The mean step, ", ", is ") if facts.steps > 1 else (" The ", " step is ")
        before, after = a_step if facts.has_steps else (" The ", " recorded are ")
        parts = [(part(took[name]), f" {name}") for name in named[:4]]
        said = (before, time(facts.step_us), after, *listing(parts, most=4), ".")
    if unknown >= _WORTH_NAMING:
        of = "a step" if facts.has_steps else "the time"
        said = (*said, " For ", part(unknown), f" of {of}, the trace does not show what happened.")
    return said


def _without_gpu(facts: PageFacts) -> Text:
    """Say that TensorFlow used no GPU, and how long the CPU ops take."""
    ops, number = facts.run.ops, len(facts.on_cpu)
    is_computing = (ops["role"] == Role.COMPUTE) & ~ops["in_input_pipeline"]
    said = f" {counted(number, 'op')}"
    if number == int(is_computing.sum()) > 1:
        is_beside = ops["in_input_pipeline"].any()
        said = f" All{said}{' outside the input pipeline' if is_beside else ''}"
    return (*_no_gpu(facts), *_took(facts, f"{said} ran on the CPU", number))


def _took(facts: PageFacts, ran: str, number: int) -> Text:
    """Say that ops ran, and how much of a step they take."""
    ops_us = facts.part_us("cpu_op")
    if not facts.has_steps or not facts.step_us or not ops_us:
        return (f"{ran} (", _host_time(facts.on_cpu), ").")
    took = (time(ops_us), *_of_a_step(facts, ops_us / facts.step_us))
    takes = "takes" if number == 1 else "take"
    return (f"{ran} and {takes} ", *took, ".", *_more_goes_to(facts, ops_us, "More goes to"))


def _host_time(ops: pd.DataFrame) -> Inline:
    return time(int(ops["host_self_ps"].sum()) / PS_PER_US)


def _no_gpu(facts: PageFacts) -> Text:
    """Say that no GPU was used, and why if a capture shows it."""
    found = (f for f in facts.diagnosis.findings if f.cause == _NO_GPU)
    known = next((f for f in found if f.certainty == "certain"), None)
    if known is not None:
        return prose(sentence(known.title))
    has_one = any(h.tables.facts.accelerators for h in facts.run.hosts)
    return ("No GPU was used" + (", although the machine has one." if has_one else "."),)


def _predicted(facts: PageFacts) -> Text:
    """Say where the ops would be with a GPU, and why there was none."""
    there, counts = facts.diagnosis.on_a_gpu, facts.with_a_gpu
    if there is None:
        return _no_gpu(facts)
    stays = there.analysis.cpu_ops.keys()
    when = "With a GPU that the program does not hide" if there.hides_gpus else "With a GPU"
    stay = counts.on_cpu + counts.on_cpu_once
    if not stay:
        said = f"{when}, all {counts.on_gpu:,} ops" if counts.on_gpu > 1 else f"{when}, the op"
        said += " that could be replayed would" if counts.unknown else " would"
        said += " run on it"
    else:
        certain = {
            op_id
            for finding in there.findings
            if finding.certainty == "certain"
            for op_id in (*finding.op_ids, *finding.dragged_along)
        }
        once = f", {counts.on_cpu_once:,} of them only once" if counts.on_cpu_once else ""
        once = ", only once" if counts.on_cpu_once == stay else once
        would = "would" if stays <= certain else "may"
        why = " by design" if stays <= facts.by_design else ""
        said = f"{when}, {counts.on_gpu:,} of {counted(sum(counts), 'op')} would run on it"
        said += f"; {stay:,} {would} stay on the CPU{why}{once}"
    unknown = f"; for {counts.unknown:,} it is unknown" if counts.unknown else ""
    return (f"{said}{unknown}. ", *_no_gpu(facts))


def _nothing(facts: PageFacts) -> Text:
    ops, number = facts.run.ops, len(facts.on_cpu)
    if ops.empty:
        return ("The trace contains no ops, so there is nothing to explain.",)
    if facts.other_device == "pluggable device" or number:
        used = f"A {facts.other_device} was used."
        if facts.other_device == "pluggable device":
            used = "A pluggable device (such as Metal) was used; its work is not in the trace."
        ran = f"{used} {counted(number, 'op')} ran on the CPU ("
        return (ran, _host_time(facts.on_cpu), ").")
    compiled = int(ops["placement"].astype(str).str.startswith(("xla", "tpu")).sum())
    if compiled:
        ran = f"{counted(compiled, 'XLA op')} ran on the accelerator"
        said = f"No TensorFlow op ran on the CPU; {ran}."
        return (said, *_shares(facts))
    return ("No op of the model is known to run on the CPU, so there is nothing to explain.",)


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

"""Builds the report's answer: what happened, what it costs, and where."""

from collections import defaultdict
from typing import Final

import pandas as pd

from traceanalyzer.capture_file.recorded_run import recorded_part
from traceanalyzer.diagnosis import EARLIER_VARIABLES
from traceanalyzer.format import counted, listed
from traceanalyzer.model.blocks import Code, Line, Text
from traceanalyzer.model.figures import StepPart
from traceanalyzer.placement.on_a_gpu import Failure
from traceanalyzer.report import text as t
from traceanalyzer.report.compiled import ran_compiled
from traceanalyzer.report.losses import lost, reported
from traceanalyzer.report.page_facts import PageFacts
from traceanalyzer.report.records import source_lines
from traceanalyzer.step_parts import PARTS
from traceanalyzer.tables.steps import REGULAR, WARM_UP, main_steps
from traceanalyzer.tables.vocabulary import Role

_NEARLY_ALL: Final = 0.95  # share of the wait from which a single place is named
_MOST: Final = 0.5
_OP_LEVEL: Final = 2  # lowest host tracer level that records ops
_WORTH_NAMING: Final = 0.05  # of a step
_LARGE: Final = 0.1  # of a step: more CPU ops may be a bottleneck
#: Beside a GPU's own work.
_BESIDE_OPS: Final[tuple[StepPart, ...]] = (
    *("input", "preparation", "launch", "runtime", "program"),
)
_NONE_KNOWN: Final = "No op of the model is known to run on the CPU."
_BEGAN_LATE: Final = "graphs_of_earlier_functions"  # a note of the recorder
_OTHER_WORK: Final = frozenset({"work_after_the_recording", "work_of_child_processes"})


def facts_of_the_bar(facts: PageFacts) -> tuple[str, ...]:
    """Return the facts in the title bar: run, hosts, TensorFlow version, devices, and steps."""
    run = facts.run
    found = [run.name, listed([host.name for host in run.hosts])]
    if run.version is not None:
        found.append(f"TensorFlow {run.version.value}")
    if facts.jax_version:
        found.append(f"JAX {facts.jax_version}")
    if facts.used:
        found.append(counted(len(facts.used), facts.used[0]))
    elif not facts.other_device and not run.ops.empty:
        found.append("GPU used" if run.gpu_used else "no GPU used")
    if facts.has_steps:
        found.append(counted(len(facts.devices[0].number), "step"))
    recorded = [recorded_part(capture_file, host.session) for host, capture_file in run.captured]
    found += [f"{part} recorded" for part in recorded if part and not part.is_nearly_all][:1]
    return tuple(text for text in found if text)


# --- what happened -----------------------------------------------------------------------------


def happened(facts: PageFacts) -> Text:
    """Return the verdict: what happened, where, what it costs, and what the trace lacks."""
    notes = [note for _, capture_file in facts.run.captured for note in capture_file.notes]
    missing = [n.message for n in notes if n.severity == "warning" and n.id in _OTHER_WORK]
    left_out = dict.fromkeys(t.sentence(message.partition(";")[0]) for message in missing)
    prepared = _only_prepared(facts)
    is_lead = facts.kind in {"C", "D"} and facts.hardly_matters and not prepared
    lead = _hardly_matters(facts) if is_lead else ()
    say = {"A": _costly, "B": _fine, "C": _without_gpu, "D": _predicted, "E": _nothing}
    what_ran = (*lead, *say[facts.kind](facts), *doubt(facts))
    if facts.failure is not None:
        what_ran = _failed(facts, facts.failure, what_ran)
    elif facts.was_killed:
        what_ran = (t.phrase("killed"), " ", *what_ran)
    what_ran = (*reported(facts), *prepared, *_began_late(facts), *what_ran)
    return (*what_ran, *(f" {each}" for each in left_out), *lost(facts))


def _only_prepared(facts: PageFacts) -> Text:
    """State that the recorded steps built their graphs, so that their times are not usual."""
    took_us = facts.part_us("preparation")
    if not facts.step_us or took_us < _WORTH_NAMING * facts.step_us:
        return ()
    kinds = set(main_steps(facts.run.steps)["kind"].astype(str)) if facts.has_steps else set()
    if WARM_UP not in kinds or REGULAR in kinds:
        return ()
    if facts.steps == 1:
        said = "TensorFlow built graphs for {}, so this is no usual step: profile later ones. "
    else:
        said = "TensorFlow built graphs for {}, so no recorded step is usual: profile later ones. "
    return t.fill(said, _of_a_step(facts, took_us))


def _began_late(facts: PageFacts) -> Text:
    """State that a capture in code lacks the graphs of functions, and what to do about it."""
    notes = [note for _, capture_file in facts.run.captured for note in capture_file.notes]
    messages = [note.message for note in notes if note.id == _BEGAN_LATE]
    return (*t.prose(t.sentence(messages[0])), " ") if messages else ()


def _failed(facts: PageFacts, failed: Failure, what_ran: Text) -> Text:
    file, _, number = failed.at.rpartition(":")
    at: Text = (" at ", Line(file=file, line=int(number))) if number.isdecimal() else ()
    why = failed.requires or f"{failed.error.type}: {failed.said}"
    obstacle = f" {t.sentence(failed.obstacle)}" if failed.obstacle else ""
    said: Text = ("The program failed", *at, *t.prose(f": {why.rstrip('.')}.{obstacle}"))
    if facts.run.ops.empty or (facts.on_cpu.empty and not facts.run.gpu_used):
        return (*said, " No op was recorded before that.")
    return (*said, " " if facts.kind == "D" else " Before that: ", *what_ran)


def _costly(facts: PageFacts) -> Text:
    if facts.run.ops["no_event"].eq("no_trace").all():
        are = "is" if len(facts.on_cpu) == 1 else "are"
        return (f"{_cpu_ops(facts)} {are} on the CPU, although there is a GPU.",)
    if facts.wait_us is None or facts.wait_share is None:
        why = " The trace has no GPU kernels, so it does not show how long the GPU waited."
        is_by_design = facts.by_design.issuperset(facts.on_cpu["op_id"])
        how = "by design" if is_by_design else "despite the GPU"
        return (*_took(facts, f"{_cpu_ops(facts)} ran on the CPU {how}"), why)
    who = "The GPU waits" if len(facts.devices) == 1 else "On average, a GPU waits"
    ops = counted(sum(us > 0 for us in facts.op_waits_us.values()), "op")
    waits = _of_a_step(facts, facts.wait_us, *facts.step.cpu_op_doubt_us)
    where = _where(facts)
    more = _more_goes_to(facts, facts.wait_us, "The GPU waits longer for")
    return t.fill("{} {} for {} on the CPU{}.{}", who, waits, ops, where, more)


def _cpu_ops(facts: PageFacts) -> str:
    return counted(len(facts.on_cpu), "op")


def _with_time(facts: PageFacts, ops: pd.DataFrame) -> Text:
    return t.fill("{} ({})", counted(len(ops), "op"), facts.step_time(ops["op_id"]))


def _of_a_step(facts: PageFacts, us: float, less_us: float = 0.0, more_us: float = 0.0) -> Text:
    """Return a time and its share of the step, or of the mean step if there are several.

    It can also be shorter or longer, by as much as the trace leaves open.
    """
    bounds_us, whole_us = (max(0.0, us - less_us), us + more_us), facts.step_us or us
    took = t.between(*map(t.time, bounds_us))
    whole, share = t.time(whole_us), t.between(*(t.part(bound / whole_us) for bound in bounds_us))
    if facts.has_steps and facts.steps != 1:
        return t.fill("{} per step ({} of the mean step, {})", took, share, whole)
    step = " step" * facts.has_steps
    return t.fill("{} of the recorded {}{} ({})", took, whole, step, share)


def _more_goes_to(facts: PageFacts, us: float, verb: str) -> Text:
    """Name the longest part of a step, other than GPU work, if it costs more than CPU placement."""
    took, kind = max((facts.part_us(kind), kind) for kind in _BESIDE_OPS)
    if took <= us or not facts.step_us:
        return ()
    the = "the " * (kind == "runtime")
    return t.fill(" {} {}{} ({}).", verb, the, facts.part_name(kind), t.part(took / facts.step_us))


def _where(facts: PageFacts) -> Text:
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
        is_open = doubt(facts) or facts.gpu_work_lost is not None
        is_open = is_open or bool(facts.crossing) or facts.was_killed
        known = _NONE_KNOWN if is_open else "The model runs entirely on the GPU."
        return (known, *_crossing(facts), *_shares(facts))
    them = "it" if len(facts.on_cpu) == 1 else "them"
    how: Text = (f" and the GPU never waited for {them}.",)
    if facts.wait_us is None:
        how = (", by design or not in every step.",)
    elif facts.waits_unexplained:
        how = _waits_at_least(facts, facts.wait_us, them)
    elif facts.wait_us:
        waits = _of_a_step(facts, facts.wait_us, *facts.step.cpu_op_doubt_us)
        how = t.fill(" and the GPU waits only {} for {}.", waits, them)
    said = "{} ran on the CPU{}{}"
    is_known = facts.gpu_work_lost is None and not facts.was_killed
    if is_known and facts.ops_share < _LARGE and not facts.waits_unexplained:
        said = f"Placement is not your bottleneck: {said}"
    return t.fill(said, _with_time(facts, facts.on_cpu), how, _shares(facts))


def _waits_at_least(facts: PageFacts, wait_us: float, them: str) -> Text:
    """State the wait for CPU ops as a lower bound, since much idle time has no known reason."""
    least_us = max(0.0, wait_us - facts.step.cpu_op_doubt_us[0])
    said = (
        t.fill(" and the GPU waits at least {} for {}", t.time(least_us), them) if least_us else ()
    )
    per_step = " per step" * (facts.has_steps and facts.steps != 1)
    idle = t.time(facts.part_us("unknown"))
    return t.fill(
        "{}; what the GPU waited for in {} of idle time{} is not known.", said, idle, per_step
    )


def _parts(facts: PageFacts, unknown: str = "") -> list[Text]:
    """Return the largest parts of the bar, each with its share."""
    shares = {kind: facts.step.part_share(kind) for kind in PARTS}
    shares = {kind: share for kind, share in shares.items() if share >= _WORTH_NAMING}
    most = sorted(shares, key=lambda kind: -shares[kind])[:4]
    most.sort(key=lambda kind: kind == "unknown")
    names = {kind: facts.part_name(kind) for kind in most} | (
        {"unknown": unknown} if unknown else {}
    )
    return [(t.part(shares[kind]), f" {names[kind]}") for kind in most]


def _hardly_matters(facts: PageFacts) -> Text:
    """Return the verdict if a run without a GPU spent its steps on other things than ops."""
    step = "The mean step" if facts.steps > 1 else "The step"
    said = f"{step}, {{}}, is {{}}. Placement hardly matters here (CPU ops take {{}} of it). "
    parts = t.listing(_parts(facts), most=4)
    less_us, more_us = facts.step.cpu_op_doubt_us
    took = t.between(t.time(facts.ops_us - less_us), t.time(facts.ops_us + more_us))
    return t.fill(said, t.time(facts.step_us or 0.0), parts, took)


def _shares(facts: PageFacts) -> Text:
    if not facts.step_us:
        return ()
    if not facts.has_gpu_times:
        # What else the host waits for may be work of the GPU.
        took_us = facts.part_us("preparation")
        if took_us < _WORTH_NAMING * facts.step_us:
            return ()
        took = _of_a_step(facts, took_us)
        return t.fill(" {} takes {}.", t.capital(facts.part_name("preparation")), took)
    named = _parts(facts, "idle for unknown reasons")
    template = " The recorded time, {}, is {}."
    if facts.has_steps:
        template = " The mean step, {}, is {}." if facts.steps > 1 else " The {} step is {}."
    return t.fill(template, t.time(facts.step_us), t.listing(named, most=4)) if named else ()


def _without_gpu(facts: PageFacts) -> Text:
    is_input, said = facts.run.ops["in_input_pipeline"], f" {_cpu_ops(facts)}"
    is_computing = (facts.run.ops["role"] == Role.COMPUTE) & ~is_input
    if 1 < len(facts.on_cpu) == int(is_computing.sum()):
        said = f" All{said}" + " outside the input pipeline" * bool(is_input.any())
    return (*no_gpu(facts), *_took(facts, f"{said} ran on the CPU"))


def _took(facts: PageFacts, ran: str) -> Text:
    ops_us = facts.part_us("cpu_op")
    if not facts.step_us or not ops_us:
        return t.fill("{} ({}).", ran, facts.host_time(facts.on_cpu["op_id"]))
    took = _of_a_step(facts, ops_us, *facts.step.cpu_op_doubt_us)
    more = _more_goes_to(facts, ops_us, "More goes to")
    return t.fill("{} and took {}.{}", ran, took, more)


def no_gpu(facts: PageFacts) -> Text:
    """State that no GPU was used, with the reason if it is certain."""
    if facts.why_no_gpu is not None:
        return t.prose(t.sentence(facts.why_no_gpu.title))
    return ("No GPU was used" + (", although the machine has one." if has_gpu(facts) else "."),)


def has_gpu(facts: PageFacts) -> bool:
    """Return whether the machine has a GPU, used or not."""
    return any(host.tables.facts.accelerators for host in facts.run.hosts)


def _predicted(facts: PageFacts) -> Text:
    there, counts = facts.diagnosis.on_a_gpu, facts.with_a_gpu
    stay = len(facts.stay_on_cpu)
    hides = there is not None and there.hides_gpus
    said = "With a GPU that the program does not hide, " if hides else "With a GPU, "
    if stay:
        rare = counts.on_cpu_once
        once = f", {rare:,} of them not in every step" if rare else ""
        once = ", but not in every step" if rare == stay else once
        would = "would" if facts.stay_for_certain else "may"
        is_by_design = facts.stay_on_cpu <= facts.by_design
        why = " by design" if is_by_design else ""
        said += f"{counts.on_gpu:,} of {counted(sum(counts), 'op')} would run on it"
        said += f"; {stay:,} {would} stay on the CPU{why}{once}"
    else:
        said += {1: "the op", 2: "both ops"}.get(counts.on_gpu, f"all {counts.on_gpu:,} ops")
        said += f"{' that could be replayed' if counts.unknown else ''} would run on it"
    unknown = f"; the device of {counts.unknown:,} is unknown" if counts.unknown else ""
    assumes = f" This assumes that {EARLIER_VARIABLES}." if _is_conditional(facts) else ""
    said = f"{said}{_on_host(facts)}{unknown}.{assumes}"
    return (said, *_crossing(facts), *_in_this_run(facts))


def _is_conditional(facts: PageFacts) -> bool:
    there = facts.diagnosis.on_a_gpu
    return there is not None and there.has_earlier_variables


def _on_host(facts: PageFacts) -> str:
    number = facts.computed_on_host
    are = "is" if number == 1 else "are"
    return f"; of those on the GPU, {number:,} {are} computed on the host" if number else ""


def _crossing(facts: PageFacts) -> Text:
    """Name the first op on the GPU whose values go to the host and back, if there are any."""
    return t.prose(f" {facts.crossing[0].title}.") if facts.crossing else ()


def _in_this_run(facts: PageFacts) -> Text:
    """State what the ops that would stay on the CPU, and a step, cost in this run."""
    stay, costs = facts.stay_on_cpu, []
    if stay and facts.recur(stay):
        they_take = f"those {len(stay):,} take" if len(stay) > 1 else "that op takes"
        if facts.has_times(stay):
            costs.append(t.fill("{} {}", they_take, facts.step_time(stay)))
    if facts.has_steps and facts.step_us and not facts.hardly_matters:
        parts = t.listing(_parts(facts), most=4)
        costs.append(t.fill("a step takes {} ({})", t.time(facts.step_us), parts))
    return t.fill(" In this run, {}.", t.listing(costs)) if costs else ()


def _nothing(facts: PageFacts) -> Text:
    if facts.run.ops.empty:
        said = "The trace contains no ops, so there is nothing to explain."
        if facts.jax_version is not None:
            said = "The program uses JAX, and the trace contains no ops."
        return (said if facts.why_no_gpu is None else f"No op ran. {facts.why_no_gpu.title}.",)
    if facts.other_device == "pluggable device" or not facts.on_cpu.empty:
        used = f"A {facts.other_device} was used."
        if facts.other_device == "pluggable device":
            used = "A pluggable device (such as Metal) was used; its work is not in the trace."
        return t.fill("{} {} ran on the CPU.", used, _with_time(facts, facts.on_cpu))
    if facts.compiled:
        return (*ran_compiled(facts), *_shares(facts))
    return (f"{_NONE_KNOWN} There is nothing to explain.",)


def doubt(facts: PageFacts) -> Text:
    """State what the trace lacks to show which ops ran on the CPU; () if nothing."""
    ops, seen = facts.run.ops, [host.tables.facts for host in facts.run.hosts]
    if ops.empty:
        return ()
    if ops["no_event"].eq("no_trace").all():
        return (" There is no usable trace, so times are unknown.",)
    if not all(f.has_host_plane and f.host_level >= _OP_LEVEL for f in seen):
        return (" The trace does not record CPU ops: its host events are missing or too coarse.",)
    unknown = ops[(ops["placement"] == "unknown") & (ops["role"] == Role.COMPUTE)]
    if unknown.empty:
        return ()
    them = "it" if len(unknown) == 1 else "them"
    said = " For {}, the trace does not show which device ran {}."
    return t.fill(said, _with_time(facts, unknown), them)

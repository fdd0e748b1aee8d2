"""Describes the differences between two runs in sentences, each with the affected ops."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.compare.matching import ComparedOp, Matching, match, without_numbers
from traceanalyzer.compare.reports import findings_of, retraced_of
from traceanalyzer.compare.shapes import changed_batches, changed_shapes
from traceanalyzer.compare.step_times import (
    StepTimeChange,
    compared_step_times,
    step_time_change,
    step_times,
    why_not_compared,
)
from traceanalyzer.format import counted, duration, percent_text, series, size
from traceanalyzer.model import Report

Kind: TypeAlias = Literal[
    "moved",
    "unknown",
    "types",
    "shapes",
    "ops",
    "finding",
    "transfers",
    "input",
    "memory",
    "environment",
]

_NOTICEABLE: Final = 0.1  # change of bytes, counts, and waits
_LEAST_BYTES: Final = 1 << 20  # of memory
_LEAST_WAIT: Final = 0.05  # of a step: change of the time it waits for input
_LEAST_WAIT_US: Final = 1_000.0  # a smaller change of a wait can be the operating system's
_MOST_NAMED: Final = 4
_CAPTURE: Final = "traceanalyzer capture "
_OUTPUTS: Final = re.compile(r" --no-report\b| --(?:logdir|report)[ =](?:'[^']*'|\S+)")
_DEVICES: Final = {"cpu": "the CPU", "gpu": "the GPU"}


@dataclass(frozen=True)
class Difference:
    """A difference between two runs."""

    kind: Kind
    text: str
    ops: tuple[str, ...] = ()  # names, in the new run if they are there


@dataclass(frozen=True)
class Comparison:
    """The differences between two runs; complete only if the runs have enough in common."""

    shared: float  # share of the ops of both runs with a partner of the same name or line
    step_time: StepTimeChange | None  # None: cannot be compared
    differences: tuple[Difference, ...]
    is_of_parts: bool = False  # a report lists a part of its ops, and the share is of those
    has_enough_in_common: bool = True


def compare(base: Report, new: Report) -> Comparison:
    """Compare two reports."""
    matching = match(base, new)
    environment = (*_cut(matching, base, new), *_environment(base, new))
    if not matching.is_enough:
        return Comparison(
            matching.share, None, environment, len(matching.cut) > 0, has_enough_in_common=False
        )
    change = compared_step_times(base, new)
    found = (
        *_moved(matching.pairs, base, new),
        *_findings(matching, base, new),
        *_retraced(base, new),
        *_types(matching.pairs),
        *(Difference("shapes", text) for text in changed_batches(base, new)),
        *(Difference("shapes", *each) for each in changed_shapes(matching.pairs)),
        *_renamed_new_and_gone(matching, base, new),
        *_transfers(base, new),
        *_input(base, new),
        *_memory(base, new),
        *environment,
    )
    return Comparison(matching.share, change, found, len(matching.cut) > 0)


def _cut(matching: Matching, base: Report, new: Report) -> Iterator[Difference]:
    """Yield what cannot be matched because a report lists a part of its ops."""
    sides = {"base": (base, matching.new, "new"), "new": (new, matching.gone, "base")}
    for run in matching.cut:
        report, unmatched, other = sides[run]
        listed, total = len(report.tables.ops.rows), report.tables.ops.total_rows
        text = f"The report of the {run} run lists only {listed:,} of its {total:,} ops"
        if unmatched:
            text += f", so whether it has {counted(len(unmatched), 'op')} of the {other} run is"
            text += " unknown; compare the profiles themselves"
        yield Difference("environment", text)


def _moved(
    pairs: Sequence[tuple[ComparedOp, ComparedOp]], base: Report, new: Report
) -> Iterator[Difference]:
    has_gpu = [_has_gpu(report) for report in (base, new)]
    if not all(has_gpu):
        if any(has_gpu):
            run = "base" if has_gpu[0] else "new"
            text = f"only those of the {run} run are known for a machine with a GPU"
            yield Difference("moved", f"Placements cannot be compared: {text}")
        return
    groups: dict[tuple[str, str, str], list[ComparedOp]] = defaultdict(list)
    for was, now in pairs:
        where = {was.placement, now.placement}
        if len(where) > 1 and where & _DEVICES.keys() and "unknown" not in where:
            groups[was.placement, now.placement, _why_moved(was, now)].append(now)
    for (was_on, now_on, why), ops in groups.items():
        names = _names(ops)
        on, before = (_DEVICES.get(where, where) for where in (now_on, was_on))
        named, verb = series(names, _MOST_NAMED), "is" if len(ops) == 1 else "are"
        text = f"{named} {verb} now on {on}, not on {before}: {why}"
        if is_predicted(base, new):
            text = f"With a GPU, {named} would now be on {on}, not on {before}: {why}"
        yield Difference("moved", text, names)
    for run, at in (("base", 1), ("new", 0)):
        lost = [pair for pair in pairs if pair[at].placement == "unknown"]
        names = _names([pair[1] for pair in lost if pair[1 - at].placement != "unknown"])
        if names:
            text = f"Only the {run} run shows the device of {series(names, _MOST_NAMED)}"
            yield Difference("unknown", text, names)


def is_predicted(base: Report, new: Report) -> bool:
    """Return whether one of the runs had no GPU, so that its placements are predictions."""
    return base.on_a_gpu is not None or new.on_a_gpu is not None


def _has_gpu(report: Report) -> bool:
    placements = {str(row["placement"]) for row in report.tables.ops.records()}
    return report.on_a_gpu is not None or any(p.startswith("gpu") for p in placements)


def _why_moved(was: ComparedOp, now: ComparedOp) -> str:
    if was.types and now.types and was.types != now.types:
        return f"the types changed from {was.types} to {now.types}{now.at}"
    if was.requested_device != now.requested_device:
        request = now.requested_device or "no device"
        before = was.requested_device or "no device"
        return f"the program requests {request}{now.at} instead of {before}"
    finding = now.finding or was.finding
    if finding is None:
        return "the reason is unknown"
    return finding.title if now.finding else f"the finding '{finding.title}' is gone"


def _types(pairs: Iterable[tuple[ComparedOp, ComparedOp]]) -> Iterator[Difference]:
    groups: dict[tuple[str, str], list[ComparedOp]] = defaultdict(list)
    for was, now in pairs:
        if was.types and now.types and was.types != now.types and was.placement == now.placement:
            groups[was.types, now.types].append(now)
    for (before, after), ops in groups.items():
        names = _names(ops)
        verb = "has" if len(ops) == 1 else "have"
        text = f"{series(names, _MOST_NAMED)} {verb} types {after}{ops[0].at} instead of {before}"
        yield Difference("types", text, names)


def _renamed_new_and_gone(matching: Matching, base: Report, new: Report) -> Iterator[Difference]:
    for (before, after), count in _renamed_scopes(matching).items():
        yield Difference("ops", f"Scope {before} was renamed to {after} ({counted(count, 'op')})")
    for ops, run, other in ((matching.gone, "base", "new"), (matching.new, "new", "base")):
        if run == _with_more_events(base, new) or other in matching.cut:
            continue
        groups: dict[str, list[ComparedOp]] = defaultdict(list)
        for op in ops:
            scope = without_numbers(op.scope)  # update_1 and update_2 are one line
            groups[scope or op.at.removeprefix(" at ") or op.type].append(op)
        for scope, members in groups.items():
            names = _names(members)
            what = f"{counted(len(members), 'op')} in {scope} ({series(names, _MOST_NAMED)})"
            yield Difference("ops", f"Recorded only in the {run} run: {what}", names)


def _renamed_scopes(matching: Matching) -> dict[tuple[str, str], int]:
    """Return the scopes that have another name in the new run, with their numbers of ops.

    A scope was renamed only if one run has nothing of the old name, the other nothing of the new
    one, and all ops of the scope are now in the same one.
    """
    if matching.cut:
        return {}
    pairs = Counter((was.scope, now.scope) for was, now in matching.pairs)
    in_base = _scopes((*(was for was, _ in matching.pairs), *matching.gone))
    in_new = _scopes((*(now for _, now in matching.pairs), *matching.new))
    sources, targets = (Counter(pair[side] for pair in pairs) for side in (0, 1))
    return {
        (before, after): count
        for (before, after), count in pairs.items()
        if without_numbers(before) != without_numbers(after)
        and "" not in {before, after}
        and before not in in_new
        and after not in in_base
        and sources[before] == targets[after] == 1
    }


def _scopes(ops: Iterable[ComparedOp]) -> set[str]:
    """Return the names of ops and of all scopes around them."""
    found: set[str] = set()
    for op in ops:
        name = op.name
        while name and name not in found:
            found.add(name)
            name = name.rpartition("/")[0]
    return found


def _with_more_events(base: Report, new: Report) -> str:
    """Return the run ("base" or "new") with the higher host tracer level, or ""."""
    was, now = (report.run.host_tracer_level for report in (base, new))
    if was is None or now is None or was == now:
        return ""
    return "base" if was > now else "new"


def _names(ops: Sequence[ComparedOp]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(op.name for op in ops))


def _findings(matching: Matching, base: Report, new: Report) -> Iterator[Difference]:
    before, after = (findings_of(report) for report in (base, new))
    matched = {op.op_id for pair in matching.pairs for op in pair}
    for run, own, other in (("new", after, before), ("base", before, after)):
        records_more = run == _with_more_events(base, new)
        for key, finding in own.items():
            names = tuple(op.name for op in finding.ops)
            if records_more and not any(op.op_id in matched for op in finding.ops):
                continue
            if key not in other:
                text = f"Only in the {run} run ({finding.harm}): {finding.title}"
                yield Difference("finding", text, names)
            elif run == "new" and other[key].harm != finding.harm:
                text = f"Now {finding.harm} instead of {other[key].harm}: {finding.title}"
                yield Difference("finding", text, names)


def _retraced(base: Report, new: Report) -> Iterator[Difference]:
    before, after = (retraced_of(report) for report in (base, new))
    for run, own, other in (("new", after, before), ("base", before, after)):
        for key in own.keys() - other.keys():
            yield Difference("finding", f"Only in the {run} run: {own[key].detail}")


def _differs(before: float, after: float) -> bool:
    return abs(after - before) > _NOTICEABLE * max(before, after)


def _transfers(base: Report, new: Report) -> Iterator[Difference]:
    before, after = (_rates(report) for report in (base, new))
    per = "per step" if base.run.steps and new.run.steps else "in total"
    for link in before | after:
        was, now = before.get(link, (0.0, 0.0)), after.get(link, (0.0, 0.0))
        if _differs(was[0], now[0]) or _differs(was[1], now[1]):
            after_, before_ = (
                f"{count:.3g}" + (f" ({size(round(all_bytes))})" if all_bytes else "")
                for count, all_bytes in (now, was)
            )
            text = f"Transfers from {link[0]} to {link[1]} {per}: {after_} instead of {before_}"
            yield Difference("transfers", text)


def _rates(report: Report) -> dict[tuple[str, str], tuple[float, float]]:
    """Return the number and bytes of the transfers of each link, per step if there are steps."""
    edges = () if report.transfer_graph is None else report.transfer_graph.devices
    steps = report.run.steps or 1
    return {(e.source, e.target): (e.count / steps, (e.bytes or 0) / steps) for e in edges}


def _input(base: Report, new: Report) -> Iterator[Difference]:
    if why_not_compared(base, new):
        return
    change = step_time_change(_waits(base), _waits(new))
    medians = [float(np.median(times)) for times in map(step_times, (base, new)) if len(times)]
    if change is None or not change.is_seen or not medians:
        return
    least_us = max(_LEAST_WAIT_US, _LEAST_WAIT * min(medians))
    if abs(change.new_us - change.base_us) > least_us:
        slower = new if change.low > 0 else base
        stage = _slow_stage(slower)
        because = f"; the slow stage {'is' if slower is new else 'was'} {stage}" if stage else ""
        text = f"A step waits {duration(change.new_us)} for input, not {duration(change.base_us)}"
        yield Difference("input", text + because)


def _waits(report: Report) -> NDArray[np.float64]:
    """Return how long each regular step waited for input, in microseconds (at least 1)."""
    rows = report.input_pipeline.waits.records() if report.input_pipeline else []
    regular = [row for row in rows if row["kind"] == "regular"]
    waits = [float(r["wait_us"] or 0) + float(r["wait_before_us"] or 0) for r in regular]
    return np.array([max(1.0, wait) for wait in waits], float)


def _slow_stage(report: Report) -> str | None:
    hosts = report.input_pipeline.hosts if report.input_pipeline else ()
    return next((host.slow_stage for host in hosts if host.slow_stage), None)


def _memory(base: Report, new: Report) -> Iterator[Difference]:
    uses = [() if report.memory is None else report.memory.allocators for report in (base, new)]
    sides = [{a.allocator: a.peak.bytes for a in use if a.peak is not None} for use in uses]
    for allocator in sides[0].keys() & sides[1].keys():
        was, now = (side[allocator] for side in sides)
        if _differs(was, now) and abs(now - was) > _LEAST_BYTES:
            text = f"Peak memory of {allocator}: {size(now)} instead of {size(was)}"
            yield Difference("memory", text)


def _environment(base: Report, new: Report) -> Iterator[Difference]:
    rows = (
        ("TensorFlow", *(report.run.tf_version.value for report in (base, new))),
        ("The command", *(_command(report) for report in (base, new))),
        ("The number of hosts", *(len(report.run.hosts) for report in (base, new))),
        ("The devices", *(_devices(report) for report in (base, new))),
        ("The host tracer level", *(report.run.host_tracer_level for report in (base, new))),
        ("traceanalyzer", *(report.tool.version for report in (base, new))),
    )
    for what, was, now in rows:
        if was != now and was is not None and now is not None:
            yield Difference("environment", f"{what}: {now}, not {was}")
    if more := _with_more_events(base, new):
        text = f"The {more} run records more ops; ops and findings only in that run are not listed"
        yield Difference("environment", text)


def _command(report: Report) -> str | None:
    command = report.run.command or ""
    # The command of other profiles only names the file that was read.
    return _OUTPUTS.sub("", command) if command.startswith(_CAPTURE) else None


def _devices(report: Report) -> str:
    kinds = Counter(device.model or device.kind for device in report.run.devices)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))


def shared_text(comparison: Comparison) -> str:
    """Return a clause with the share of ops that are in both runs."""
    if comparison.is_of_parts:
        return f"{percent_text(comparison.shared)} of the listed ops are in both reports"
    return f"{percent_text(comparison.shared)} of the ops are in both runs"

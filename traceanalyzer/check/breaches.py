"""Compares a report with a budget and a baseline."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from msgspec.structs import asdict

from traceanalyzer.check.budget import Accepted, Budget, Forbidden, Limits
from traceanalyzer.compare.matching import match
from traceanalyzer.compare.reports import findings_of, retraced_of
from traceanalyzer.compare.step_times import compared_step_times, cpus_taken, why_not_compared
from traceanalyzer.format import counted, duration, percent_text, series, share
from traceanalyzer.model import FindingRecord, Report, Unexplained

_MOST_NAMED: Final = 3  # ops of a line


@dataclass(frozen=True)
class Breach:
    """A limit that the run exceeds, or that cannot be checked."""

    rule: str  # the key in the budget, such as `limits.step_time`, or `baseline`
    message: str  # one line
    file: str | None = None
    line: int | None = None
    finding_id: str | None = None
    is_unknown: bool = False  # the report lacks what the rule needs


def breaches(
    report: Report, budget: Budget, baseline: Report | None, today: date
) -> tuple[Breach, ...]:
    """Return all breaches of the budget and the baseline.

    In a run without a GPU, `harmful` and `cpu_ops` apply to the ops predicted to stay on the CPU
    on a machine with a GPU.
    """
    accepted = {each.id: each for each in budget.accepted if each.expires >= today}
    expired = {each.id: each for each in budget.accepted if each.expires < today}
    counting = [finding for finding in findings_of(report).values() if finding.id not in accepted]
    return (
        *_limits(report, budget.limits),
        *_forbidden(report, budget.forbidden, counting, accepted.keys(), expired),
        *(() if baseline is None else _against(report, baseline, counting)),
    )


def rules_of(budget: Budget, *, has_baseline: bool) -> tuple[str, ...]:
    """Return the names of the rules in a budget, with `baseline` if there is one."""
    limits = [f"limits.{key}" for key, limit in asdict(budget.limits).items() if limit is not None]
    forbidden = [f"forbidden.{key}" for key, value in asdict(budget.forbidden).items() if value]
    return (*limits, *forbidden, *(["baseline"] if has_baseline else []))


def notes(report: Report, budget: Budget, baseline: Report | None) -> tuple[str, ...]:
    """Return one-line remarks that are not breaches."""
    ids = findings_of(report)
    said = [
        f"the accepted finding {each.id} is not in this report; remove it from the budget"
        for each in budget.accepted
        if each.id not in ids
    ]
    said += [entry.message for entry in report.health if entry.is_capture_unused]
    if baseline is not None and (why := why_not_compared(baseline, report)):
        said.append(f"step times were not compared with the baseline: {why}")
    return tuple(said)


def _limits(report: Report, limits: Limits) -> Iterator[Breach]:
    summary = report.summary
    step = None if summary.step_us is None else summary.step_us.median
    busy_us = [device.busy_us for device in report.run.devices if device.kind != "cpu"]
    all_us = summary.cpu_op_us + sum(time or 0 for time in busy_us)
    cpu_share = summary.cpu_op_us / all_us if all_us and any(busy_us) else None
    no_gpu = "it used no GPU"
    rows = (
        ("step_time", "The median step takes", step, duration, "it has no steps"),
        (
            "exposed_time_per_step",
            "The GPU wait for CPU ops per step is",
            summary.exposed_us_per_step,
            duration,
            f"it has no steps, or {no_gpu}",
        ),
        ("cpu_op_share", "The share of op time spent in CPU ops is", cpu_share, share, no_gpu),
        (
            "explained_share",
            "The share of CPU-op time with a known cause is",
            summary.explained_share,
            share,
            no_gpu,
        ),
    )
    for key, said, value, shown, why in rows:
        limit = getattr(limits, key)
        rule = f"limits.{key}"
        if limit is None:
            continue
        if value is None:
            message = f"{rule} cannot be checked on this run: {why}"
            yield Breach(rule, message, is_unknown=True)
        elif value < limit if key == "explained_share" else value > limit:
            bound = "requires at least" if key == "explained_share" else "allows at most"
            message = f"{said} {shown(value)}; the budget {bound} {shown(limit)}"
            if shown is duration and (remark := cpus_taken(report)):
                message += f" ({remark})"
            yield Breach(rule, message.replace("\N{NO-BREAK SPACE}", " "))


def _forbidden(
    report: Report,
    forbidden: Forbidden,
    counting: Sequence[FindingRecord],
    accepted_ids: Collection[str],
    expired: Mapping[str, Accepted],
) -> Iterator[Breach]:
    there = report.on_a_gpu
    about_a_gpu = [f for f in counting if there is None or f in there.findings]
    for finding in counting:
        late = expired.get(finding.id)
        note = "" if late is None else f" (accepted only until {late.expires})"
        if finding.cause in forbidden.causes:
            message = f"{finding.cause}: {finding.title}{note}"
            yield _of(finding, report, "forbidden.causes", message)
        elif forbidden.harmful and finding.harm == "harmful" and finding in about_a_gpu:
            yield _of(finding, report, "forbidden.harmful", f"{finding.title}{note}")
    if there is None and not report.findings and not any(_recorded_ops(report)):
        for key, value in asdict(forbidden).items():
            if value:
                rule = f"forbidden.{key}"
                message = f"{rule} cannot be checked on this run: it has no ops"
                yield Breach(rule, message, is_unknown=True)
    for pattern in forbidden.cpu_ops:
        yield from _matching(report, pattern, about_a_gpu, accepted_ids)


def _of(finding: FindingRecord, report: Report, rule: str, message: str) -> Breach:
    change = next((c for c in report.changes if finding.id in c.finding_ids), None)
    place: tuple[str | None, int | None] = (None, None)
    if change is not None and change.place is not None:
        place = change.place
    elif change is None or change.kind != "gpu":
        place = next(((op.file, op.line) for op in finding.ops if op.file), place)
    return Breach(rule, message, *place, finding_id=finding.id)


def _matching(
    report: Report,
    pattern: re.Pattern[str],
    counting: Sequence[FindingRecord],
    accepted_ids: Collection[str],
) -> Iterator[Breach]:
    """Yield a breach for each finding with matching CPU ops, and one for unexplained CPU ops."""
    rule, there, forbidden = "forbidden.cpu_ops", report.on_a_gpu, repr(pattern.pattern)
    left = report.unexplained if there is None else there.unexplained
    found_ = findings_of(report)
    accepted = {op.op_id for id_ in accepted_ids if id_ in found_ for op in found_[id_].ops}

    def matches(name: object, type_: object) -> bool:
        return bool(pattern.search(str(name)) or pattern.search(str(type_)))

    groups: list[FindingRecord | Unexplained] = [*counting, left]
    for group in groups:
        total = group.ops_total or len(group.ops)
        ops = (op for op in group.ops if op.op_id not in accepted)
        found = [op for op in ops if matches(op.name, op.type)]
        because, id_ = "unknown cause", None
        if isinstance(group, FindingRecord):
            because, id_ = group.title, group.id
        if found:
            names = series(list(dict.fromkeys(op.name for op in found)), _MOST_NAMED)
            where = "would be on the CPU" if there is not None else "ran on the CPU"
            message = f"{names} {where} ({because}); the budget forbids {forbidden} on the CPU"
            yield Breach(rule, message, found[0].file, found[0].line, id_)
        elif total > len(group.ops):
            listed = f"{len(group.ops):,} of {counted(total, 'op')}"
            message = f"{forbidden}: the report lists only {listed}"
            yield Breach(rule, message, is_unknown=True)
    column = "placement" if there is None else "predicted_placement"
    unknown = (row for row in _recorded_ops(report) if row.get(column) == "unknown")
    lost = [str(row["name"]) for row in unknown if matches(row["name"], row["type"])]
    if lost:
        known = "does not show where" if there is None else "does not suffice to predict where"
        names = f"{series(lost, _MOST_NAMED)} {'ran' if there is None else 'would run'}"
        message = f"The trace {known} {names}; the budget forbids {forbidden}"
        yield Breach(rule, f"{message} on the CPU", is_unknown=True)


def _recorded_ops(report: Report) -> Iterator[dict[str, Any]]:
    return (row for row in report.tables.ops.records() if row["role"] == "compute")


def _against(report: Report, base: Report, counting: Sequence[FindingRecord]) -> Iterator[Breach]:
    matching = match(base, report)
    if not matching.is_enough:
        shared = percent_text(matching.share).replace("\N{NO-BREAK SPACE}", " ")
        why = f"{shared} of the ops are in both runs; make a new baseline of this program"
        message = f"The baseline cannot be compared with this run: {why}"
        yield Breach("baseline", message, is_unknown=True)
        return
    before = findings_of(base)
    for finding in counting:
        if finding.harm == "harmful" and finding.id not in before:
            yield _of(finding, report, "baseline", f"not in the baseline: {finding.title}")
    retraced = retraced_of(report)
    for key in retraced.keys() - retraced_of(base).keys():
        found = retraced[key]
        place = found.place or (None, None)
        yield Breach("baseline", f"not in the baseline: {found.detail}", *place)
    change = compared_step_times(base, report)
    if change is not None and change.is_seen and change.low > 0:
        times = " instead of ".join(str(duration(us)) for us in (change.new_us, change.base_us))
        message = f"Compared with the baseline, steps are {change}: {times}"
        yield Breach("baseline", message.replace("\N{NO-BREAK SPACE}", " "))

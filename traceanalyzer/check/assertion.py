"""`assert_placement`, for a program's own test suite."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from traceanalyzer.diagnosis import Diagnosis, diagnose
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.format import counted
from traceanalyzer.run import Run, load
from traceanalyzer.tables.vocabulary import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.findings import Finding

_MOST_NAMED: Final = 5


def assert_placement(
    profile: str | Path | Run | Diagnosis, ops: str, on: Literal["gpu", "cpu"] = "gpu"
) -> None:
    """Assert that ops run on the GPU or on the CPU.

    If no GPU was used, this checks the placement predicted for a machine with one, which needs a
    capture. So a test suite can check placement on a machine without a GPU.

    Args:
        profile: A log directory, a run directory, a trace, a run, or a diagnosis.
        ops: A regular expression, searched in names and types. At least one op must match.
        on: Where all these ops must run.

    Raises:
        AssertionError: An op runs elsewhere or on an unknown device, or no op matches. The message
            says why, and what to change.
        TraceAnalyzerError: The profile cannot be read, or `ops` is not a regular expression.
    """
    if isinstance(profile, (str, Path)):
        profile = load(profile)
    diagnosis = diagnose(profile) if isinstance(profile, Run) else profile
    try:
        expression = re.compile(ops)
    except (re.error, OverflowError, RecursionError) as error:
        msg = f"{ops!r} is not a regular expression ({error}); correct it"
        raise TraceAnalyzerError(msg) from error
    placed = list(_placements(diagnosis, expression))
    if not placed:
        msg = f"no op's name or type matches {ops!r}"
        raise AssertionError(msg)
    wrong = [each for each in placed if each[2] != on]
    if wrong:
        verb = "is" if len(wrong) == 1 else "are"
        lines = [f"{len(wrong):,} of {counted(len(placed), 'op')} {verb} not on the {on.upper()}:"]
        for name, op_id, where in wrong[:_MOST_NAMED]:
            why = _why(diagnosis, op_id) if where != "unknown" else ""
            lines.append(f"  {name}: {where}{why}")
        if len(wrong) > _MOST_NAMED:
            lines.append(f"  and {len(wrong) - _MOST_NAMED:,} more")
        raise AssertionError("\n".join(lines))


def _placements(
    diagnosis: Diagnosis, expression: re.Pattern[str]
) -> Iterator[tuple[str, str, str]]:
    """Yield the name, id, and device ("gpu", "cpu", "unknown", or another) of each matching op."""
    run = diagnosis.run
    rows = run.ops[run.ops["role"] == Role.COMPUTE]
    for row in rows[["name", "type", "op_id", "placement"]].itertuples(index=False):
        name, type_, op_id, placement = map(str, row)
        if expression.search(name) or expression.search(type_):
            where = placement.split(":", maxsplit=1)[0]
            yield name, op_id, where if run.gpu_used else diagnosis.placement_on_a_gpu(op_id)


def _why(diagnosis: Diagnosis, op_id: str) -> str:
    """Return the reason why an op is on the CPU, and the first fix; "" if unknown."""
    there = diagnosis.on_a_gpu
    findings: tuple[Finding, ...] = diagnosis.findings if there is None else there.findings
    finding = next((f for f in findings if op_id in f.op_ids), None)
    if finding is None:
        return ""
    fix = next((f" To fix it: {f.title}." for f in finding.fixes if f.title), "")
    return f" ({finding.certainty}). {finding.title}.{fix}"

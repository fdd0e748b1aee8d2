"""How many ops a trace without its capture file explains, and how many answers are right."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections import Counter, defaultdict
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

import traceanalyzer as ta
from tests.labelled import LabelledProgram
from tests.labelled.scoring import captured, label_of, on_cpu
from traceanalyzer.causes.knowledge.candidates import Candidates
from traceanalyzer.causes.knowledge.finding_text import OP_OR_CALL
from traceanalyzer.diagnosis import cpu_ops
from traceanalyzer.run import Run

# A trace cannot show whether a scope is around an op or around the call of its function. A finding
# that names both, and how to decide, is right if the label is either.
_SCOPES: Final = frozenset({"explicit_cpu_placement", "caller_device_scope_cpu"})
# What a trace shows is a scope, or where a variable is, but not who put it there or why.
_AS_SHOWN: Final = {
    "memory_pressure": _SCOPES,
    "distribution_strategy_cpu": _SCOPES | {"resource_on_cpu"},
}


@dataclass(kw_only=True)
class Calibration:
    """The answers about ops on the CPU whose labels are known; calibrations can be added."""

    ops: int = 0
    ps: int = 0
    answered: int = 0  #: certain or likely
    answered_ps: int = 0
    right: int = 0  #: of these, as the label says; see `_SCOPES`
    exact: int = 0  #: of these, exactly one cause is named, and the label's
    as_shown: int = 0  #: of these, right as far as a trace can show it
    wrong_certain: int = 0
    open: int = 0
    among_four: int = 0  #: of the open ones, a candidate is right
    first: int = 0  #: of the open ones, the first candidate is right
    by_cause: Counter[tuple[str, bool]] = field(default_factory=Counter)  #: whether as shown
    misses: list[str] = field(default_factory=list)

    def __add__(self, other: Calibration) -> Calibration:
        """Return the calibration of both."""
        names = [each.name for each in fields(self)]
        return Calibration(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def __str__(self) -> str:
        """Return it as lines of text."""
        causes = sorted({cause for cause, _ in self.by_cause})
        each = (f"{c} {self.by_cause[c, True]}+{self.by_cause[c, False]}" for c in causes)
        return (
            f"explained: {self.answered} of {self.ops} ops, {self.answered_ps / self.ps:.0%} of "
            f"their time; right as far as a trace can show it: {self.as_shown}, with the label's "
            f"cause {self.right}, of which it is the only one named for {self.exact}; "
            f"certain and wrong: {self.wrong_certain}\n"
            f"open: {self.open}; first candidate right: {self.first}, one of four: "
            f"{self.among_four}\nright+wrong: {', '.join(each)}"
        )


@functools.cache
def calibrated(program: LabelledProgram, level: int) -> Calibration:
    """Compare the answers to a program's trace, of a host tracer level, with its labels."""
    full = captured(program, level=level)
    bare = Path(tempfile.mkdtemp(prefix="labelled-"))
    for host in full.hosts:
        assert host.file is not None
        without_capture_file(host.file.path.parents[3], bare)
    return compared(program, full, ta.load(bare))


def without_capture_file(captured: Path, folder: Path, events: Path | None = None) -> Path:
    """Copy a trace and the events files beside it, or those of another program."""
    for trace in captured.rglob("*.xplane.pb"):
        copy = folder / trace.relative_to(captured)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(trace, copy)
    for file in (events or captured).glob("events.out.tfevents.*"):
        shutil.copy(file, folder)
    return folder


def compared(program: LabelledProgram, full: Run, run: Run) -> Calibration:
    """Compare the answers to a run with the labels, whose lines a capture of the program has."""
    causes: dict[tuple[bool, str, str], frozenset[str]] = defaultdict(frozenset)
    for row in on_cpu(program, full).itertuples():
        if (label := label_of(program, row)) is not None:
            causes[_kind(row)] |= label.ids
    diagnosis, candidates = ta.diagnose(run), Candidates(run)
    findings = {op_id: f for f in diagnosis.findings for op_id in f.op_ids}
    found = Calibration()
    for row in cpu_ops(run).itertuples():
        true = causes.get(_kind(row), frozenset())
        if not true:
            continue
        finding = findings.get(row.op_id)
        found.ops += 1
        found.ps += row.host_self_ps
        if finding is None or finding.certainty == "possible":
            named = candidates.of(diagnosis.cpu_ops.get(row.op_id))
            named = named if finding is None else (finding.cause,)
            found.open += 1
            found.first += named[:1] != () and named[0] in true
            found.among_four += not true.isdisjoint(named)
            continue
        names = {finding.cause, *(blocker.cause for blocker in finding.blockers)}
        is_either = OP_OR_CALL in finding.modifiers and not true.isdisjoint(_SCOPES)
        is_right = names <= (true | _SCOPES if is_either else true)
        is_shown = is_right or names <= true.union(*(_AS_SHOWN.get(cause, ()) for cause in true))
        found.answered += 1
        found.answered_ps += row.host_self_ps
        found.right += is_right
        found.exact += names <= true
        found.as_shown += is_shown
        found.wrong_certain += finding.certainty == "certain" and not is_right
        found.by_cause[finding.cause, is_shown] += 1
        if not is_shown:
            wanted = f"{sorted(names)}, {finding.certainty}; label: {sorted(true)}"
            found.misses.append(f"{program.name}: {row.name} ({row.type}): {wanted}")
    return found


def _kind(row: Any) -> tuple[bool, str, str]:  # noqa: ANN401 - a named tuple
    return bool(row.is_eager), str(row.type if row.is_eager else row.name), str(row.type)

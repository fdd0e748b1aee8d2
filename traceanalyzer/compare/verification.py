"""Checks whether a fix helped: looks up a finding of one run in a run recorded after the fix.

The fix can be a report's edits, applied to the text of the program's files, which are not written.
"""

import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from traceanalyzer.compare.matching import match
from traceanalyzer.compare.reports import findings_of
from traceanalyzer.compare.step_times import StepTimeChange, compared_step_times, why_not_compared
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.format import counted, duration, printable, series
from traceanalyzer.model import FindingRecord, Gain, Report
from traceanalyzer.model.changes import Change, Edit

_MOST_NAMED: Final = 5


@dataclass(frozen=True)
class Verdict:
    """The verdict on a finding: whether it is fixed, and where its ops are now."""

    is_fixed: bool  # the finding is not harmful any more, and its ops have left the CPU
    ops: int  # of the finding
    on_gpu: int  # of these, on the GPU now
    gone: int  # of these, not in the new run
    why: str  # why ops are still on the CPU; "" if none is
    step_time: StepTimeChange | None
    why_no_step_time: str  # "" if step times can be compared
    predicted: Gain | None
    is_prediction: bool  # the new run had no GPU: placement is predicted

    def __str__(self) -> str:
        left = self.ops - self.on_gpu - self.gone
        counts = {"on the GPU": self.on_gpu, "no longer recorded": self.gone}
        counts["not on the GPU"] = left
        parts = [f"{number} {where}" for where, number in counts.items() if number]
        said = "Fixed" if self.is_fixed else "Still there"
        said += " (predicted for a machine with a GPU)" if self.is_prediction else ""
        if self.ops:
            said += f": {counted(self.ops, 'op')} ({', '.join(parts)})"
        if self.why:
            said += f". {self.why}"
        return f"{said}. {self._steps()}"

    def _steps(self) -> str:
        change, expected = self.step_time, ""
        if self.predicted is not None and self.predicted.high is not None:
            expected = f" Predicted: up to {duration(self.predicted.high)} less per step."
        if change is None:
            return f"Step times cannot be compared: {self.why_no_step_time}.{expected}"
        times = f"{duration(change.new_us)} instead of {duration(change.base_us)}"
        return f"Steps: {change} ({times}).{expected}"


def finding_of(report: Report, finding_id: str | None) -> FindingRecord:
    """Return the finding with this id. If the id is None, return the only harmful finding.

    Raises:
        TraceAnalyzerError: There is no such finding, or several are harmful.
    """
    there = report.on_a_gpu
    about_a_gpu = report.findings if there is None else there.findings
    harmful = [each for each in about_a_gpu if each.harm == "harmful"]
    every = findings_of(report).values()
    chosen = [f for f in every if f.id == finding_id] if finding_id else harmful
    if len(chosen) != 1:
        known = series([f"{each.id} ({each.title})" for each in harmful], _MOST_NAMED)
        what = "no finding with that id" if finding_id else f"{len(harmful)} harmful findings"
        advice = f"choose one with --finding: {known}" if harmful else "none is harmful"
        msg = f"the report has {what}; {advice}"
        raise TraceAnalyzerError(msg)
    return chosen[0]


def verified(base: Report, finding: FindingRecord, new: Report) -> Verdict:
    """Return the verdict on whether a finding of `base` is fixed in `new`."""
    ids = {op.op_id for op in finding.ops}
    matching = match(base, new)
    pairs = [(was, now) for was, now in matching.pairs if was.op_id in ids]
    on_gpu = sum(now.placement == "gpu" for _, now in pairs)
    gone = sum(op.op_id in ids for op in matching.gone)
    left = [now for was, now in pairs if was.placement == "cpu" and now.placement != "gpu"]
    same = findings_of(new).get(finding.id)
    is_left = same is not None and same.harm == "harmful"
    why = same.title if same is not None and is_left else ""
    if not why and left and left[0].finding is not None:
        why = left[0].finding.title
    return Verdict(
        is_fixed=not is_left and not left,
        ops=len(pairs) + gone,
        on_gpu=on_gpu,
        gone=gone,
        why=why,
        step_time=compared_step_times(base, new),
        why_no_step_time=why_not_compared(base, new),
        predicted=finding.gain_us_per_step,
        is_prediction=new.on_a_gpu is not None,
    )


def changes_for(report: Report, finding: FindingRecord) -> tuple[Change, ...]:
    """Return the changes that fix a finding, and the changes that they require.

    Raises:
        TraceAnalyzerError: There is no change, or a change has no complete diff.
    """
    own = [c for c in report.changes if finding.id in c.finding_ids and c.kind != "gpu"]
    needed = {id_ for change in own for id_ in change.needs}
    found = (*own, *(c for c in report.changes if c.id in needed and c not in own))
    for change in found or [None]:
        edited = () if change is None else {(edit.file, edit.line) for edit in change.edits}
        if change is None or not edited or any(place not in edited for place in change.also):
            title = finding.title if change is None else change.title
            msg = f"the report has no full diff for '{title}'; edit the program, and omit --apply"
            raise TraceAnalyzerError(msg)
    return found


def edited_files(edits: Iterable[Edit], folders: Sequence[Path]) -> dict[str, str]:
    """Find the edited files in `folders`, and return each one's edited text by resolved path.

    Raises:
        TraceAnalyzerError: A file is missing or cannot be read, has changed since it was captured,
            or is edited twice at one line.
    """
    lines: dict[Path, list[str]] = {}
    first_edited: dict[Path, int] = {}  # the first line that an edit has replaced
    for edit in sorted(set(edits), key=lambda each: -each.line):  # later edits move no lines
        path = _found(edit.file, folders)
        text = lines[path] if path in lines else lines.setdefault(path, _lines(path))
        start, end, place = edit.line - 1, edit.line - 1 + len(edit.old), _place(edit)
        if end > first_edited.get(path, end):
            msg = f"{place}: two diffs change this line; apply one, capture again, and verify then"
            raise TraceAnalyzerError(msg)
        if tuple(text[start:end]) != edit.old:
            msg = f"{place}: changed after the capture; capture again, and verify the new report"
            raise TraceAnalyzerError(msg)
        text[start:end] = edit.new
        first_edited[path] = start
    return {str(path): "\n".join(of_file) for path, of_file in lines.items()}


def _place(edit: Edit) -> str:
    return f"{printable(edit.file)}:{edit.line}"


def _found(file: str, folders: Sequence[Path]) -> Path:
    path = next((folder / file for folder in folders if (folder / file).is_file()), None)
    if path is None:
        msg = f"{printable(file)}: not found; run this command where you captured the program"
        raise TraceAnalyzerError(msg)
    return path.resolve()


def _lines(path: Path) -> list[str]:
    try:
        with tokenize.open(path) as file:
            return file.read().split("\n")
    except (OSError, SyntaxError, ValueError) as error:
        msg = f"{printable(str(path))}: cannot be read ({error}); capture again"
        raise TraceAnalyzerError(msg) from error

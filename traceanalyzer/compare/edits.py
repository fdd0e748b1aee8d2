"""Applies a report's edits to the text of a program's files, without writing the files."""

import tokenize
from collections.abc import Iterable, Sequence
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.format import printable
from traceanalyzer.model import FindingRecord, Report
from traceanalyzer.model.changes import Change, Edit


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
        TraceAnalyzerError: A file is missing, or has changed since it was captured.
    """
    lines: dict[Path, list[str]] = {}
    for edit in sorted(set(edits), key=lambda each: -each.line):  # later edits move no lines
        path = next((f / edit.file for f in folders if (f / edit.file).is_file()), None)
        text = lines.setdefault(path.resolve(), _lines(path)) if path is not None else []
        start, end = edit.line - 1, edit.line - 1 + len(edit.old)
        if tuple(text[start:end]) != edit.old:
            place = f"{printable(edit.file)}:{edit.line}"
            msg = f"{place}: changed after the capture; capture again, and verify the new report"
            raise TraceAnalyzerError(msg)
        text[start:end] = edit.new
    return {str(path): "\n".join(of_file) for path, of_file in lines.items()}


def _lines(path: Path) -> list[str]:
    with tokenize.open(path) as file:
        return file.read().split("\n")

"""Source files and places as reports show them, without the author's folders."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

from traceanalyzer.model import CaptureFileWhere, SourceWhere, TraceWhere
from traceanalyzer.source_files import shown_files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traceanalyzer.model import Evidence
    from traceanalyzer.run import Run


def evidence_shown(evidence: Iterable[Evidence], run: Run) -> tuple[Evidence, ...]:
    """Return evidence as a report shows it: files as above, with the text of each line."""
    return tuple(
        replace(e, where=_where_shown(e.where, run)) if isinstance(e.where, SourceWhere) else e
        for e in evidence
    )


def _where_shown(where: SourceWhere, run: Run) -> SourceWhere:
    file = shown_files([where.file], run)[0] or where.file
    return replace(where, file=file, source=line_text(where.file, where.line, run))


def line_texts(ops: pd.DataFrame, run: Run) -> list[str | None]:
    """Return the text of the line that made each op, if a capture kept it."""
    capture_files = {host.name: host.capture_file for host in run.hosts}
    columns = (ops["host"], ops["source_file"], ops["source_line"])
    return [
        capture_file.line_text(file, int(line))
        if (capture_file := capture_files.get(str(host)))
        and isinstance(file, str)
        and not pd.isna(line)
        else None
        for host, file, line in zip(*columns, strict=True)
    ]


def line_text(file: str, line: int | None, run: Run) -> str | None:
    """Return the text of a line of the program, if a capture kept it."""
    if line is None:
        return None
    texts = (host.capture_file.line_text(file, line) for host in run.hosts if host.capture_file)
    return next((text for text in texts if text is not None), None)


def place_of(evidence: Evidence) -> str:
    """Return the place of a piece of evidence in words; "" for a fact outside the run."""
    where = evidence.where
    if isinstance(where, SourceWhere):
        return where.file if where.line is None else f"{where.file}:{where.line}"
    if isinstance(where, CaptureFileWhere):
        return f"capture file: {where.capture_file}"
    if isinstance(where, TraceWhere):
        return f"trace: {where.plane}" + ("" if where.line is None else f", {where.line}")
    return ""

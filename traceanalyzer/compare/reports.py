"""Builds reports from traces, or reads them from `report.json`, to compare or check them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from traceanalyzer.errors import TraceAnalyzerError, TraceFormatError, TraceNotFoundError
from traceanalyzer.format import printable
from traceanalyzer.model import (
    SCHEMA_VERSION,
    CaptureFileWhere,
    FindingRecord,
    Report,
    SourceWhere,
    TraceWhere,
    Where,
)
from traceanalyzer.model.changes import Change

_LARGEST_BYTES: Final = 1 << 30
_AGAIN: Final = "write the report with `traceanalyzer report PATH --json FILE`"


def is_report(path: Path) -> bool:
    """Return whether a path names a `report.json`, not a folder or a trace (`trace.json.gz`)."""
    return path.suffix == ".json" and not path.is_dir()


def read_report(file: Path) -> Report:
    """Read a `report.json`.

    Raises:
        TraceNotFoundError: There is no such file.
        TraceFormatError: The file is not a report of schema version 2.
    """
    shown = printable(file)
    try:
        if file.stat().st_size > _LARGEST_BYTES:
            msg = f"{shown}: larger than {_LARGEST_BYTES >> 30} GiB, so not a report; {_AGAIN}"
            raise TraceFormatError(msg)
        data = msgspec.json.decode(file.read_bytes())
    except FileNotFoundError as error:
        msg = f"{shown}: no such file; {_AGAIN}"
        raise TraceNotFoundError(msg) from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        msg = f"{shown}: not JSON ({error}); {_AGAIN}"
        raise TraceFormatError(msg) from error
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != SCHEMA_VERSION:
        number = f"schema version {printable(str(version)[:20])}, not {SCHEMA_VERSION}"
        what = "not a traceanalyzer report" if version is None else number
        msg = f"{shown}: {what}; {_AGAIN}"
        raise TraceFormatError(msg)
    try:
        return msgspec.convert(data, Report, dec_hook=_where)
    except msgspec.ValidationError as error:
        msg = f"{shown}: damaged, or by another version ({error}); {_AGAIN} again"
        raise TraceFormatError(msg) from error


def _where(_: type, value: Any) -> Where:  # noqa: ANN401 - whatever the file has there
    """Decode the place of a piece of evidence. The keys of `value` determine the kind of place.

    Raises:
        msgspec.ValidationError: The value is not a place.
    """
    keys = value if isinstance(value, dict) else {}
    kinds = {"capture_file": CaptureFileWhere, "file": SourceWhere}
    return msgspec.convert(value, next((kinds[k] for k in kinds if k in keys), TraceWhere))


def findings_of(report: Report) -> dict[str, FindingRecord]:
    """Return all findings of a report by id, including predicted ones."""
    there = report.on_a_gpu
    predicted = () if there is None else there.findings
    return {finding.id: finding for finding in (*report.findings, *predicted)}


def retraced_of(report: Report) -> dict[str, Change]:
    """Return the changes about functions that are traced again and again, by id."""
    return {change.id: change for change in report.changes if change.kind == "retracing"}


def report_of(
    path: Path,
    run_name: str | None = None,
    max_memory_bytes: int | None = None,
    progress: Callable[[str], None] = lambda _: None,
    graphs: Sequence[Path] = (),
) -> Report:
    """Return the report of a log directory, a run directory, a trace, or a `report.json`.

    Only the last kind can list a part of its ops.
    """
    if is_report(path):
        if run_name is not None or graphs:
            msg = f"{printable(path)}: this is a report of one run; leave out --run and --graph"
            raise TraceAnalyzerError(msg)
        return read_report(path)
    if path.suffix.lower() in {".html", ".htm"}:
        shown = printable(path)
        msg = f"{shown}: a page cannot be read; name the log directory, or a report in JSON"
        raise TraceAnalyzerError(msg)
    from traceanalyzer.diagnosis import diagnose  # noqa: PLC0415 - loads pandas
    from traceanalyzer.report.assemble import assemble  # noqa: PLC0415
    from traceanalyzer.run import load  # noqa: PLC0415

    run = load(path, run_name, graphs=graphs, max_memory_bytes=max_memory_bytes, progress=progress)
    progress("explaining")
    return assemble(diagnose(run), is_whole=True)

"""Converts analysis results to records of the report, with times in microseconds."""

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any, Final, TypeVar

import pandas as pd

from traceanalyzer import model as m
from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.model._record import Record
from traceanalyzer.model.blocks import Line
from traceanalyzer.report.text import plain
from traceanalyzer.run import Run
from traceanalyzer.source_files import shown_files
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.units import PS_PER_US, us

R = TypeVar("R", bound="Record")
_MAX_ROWS: Final = 500
_NONE_SUCH: Final = object()


def to_record(kind: type[R], found: object, **values: Any) -> R:  # noqa: ANN401
    """Return a record with the given values, and with its other fields read from `found` by name.

    `found` is an object or a mapping. If it lacks `total_us`, for example, `total_ps` is converted.
    """
    read = found.get if isinstance(found, Mapping) else partial(getattr, found)
    for name in {field.name for field in fields(kind)} - values.keys():  # type: ignore[arg-type]
        value = read(name, _NONE_SUCH)
        if value is _NONE_SUCH and name.endswith("_us"):
            in_ps = read(f"{name.removesuffix('_us')}_ps", _NONE_SUCH)
            value = in_ps if in_ps is _NONE_SUCH else us(in_ps)
        if value is not _NONE_SUCH:
            values[name] = value
    return kind(**values)


# --- tables ----------------------------------------------------------------------------------


def tables(diagnosis: Diagnosis, most_ops: int | None) -> m.Tables:
    """Return the report's tables of ops and steps, limited in size.

    Ops are limited to `most_ops` CPU ops and `most_ops` others.
    """
    origin_ps = min((host.start_ps for host in diagnosis.run.hosts), default=0)
    steps = table(in_us(diagnosis.run.steps, origin_ps), _MAX_ROWS)
    return m.Tables(ops=_op_table(diagnosis, most_ops), steps=steps)


def in_us(frame: pd.DataFrame, origin_ps: int = 0) -> pd.DataFrame:
    """Convert picoseconds to microseconds, and make timestamps relative to the origin."""
    out = {}
    for name, column in frame.items():
        if str(name).endswith("_ps"):
            from_ps = origin_ps if name in {"start_ps", "at_ps"} else 0
            out[f"{str(name).removesuffix('_ps')}_us"] = (column - from_ps) / PS_PER_US
        else:
            out[str(name)] = column
    return pd.DataFrame(out)


def table(
    frame: pd.DataFrame, most_rows: int | None = None, total_rows: int | None = None
) -> m.DataTable:
    """Return the first rows of a dataframe as a table of the report."""
    shown = frame.head(most_rows) if most_rows is not None else frame
    plain = shown.astype(object).where(shown.notna(), None)
    return m.DataTable(
        columns=tuple(map(str, frame.columns)),
        rows=tuple(map(tuple, plain.to_numpy(dtype=object).tolist())),
        total_rows=len(frame) if total_rows is None else total_rows,
    )


def _op_table(diagnosis: Diagnosis, most: int | None) -> m.DataTable:
    """Return a table of the most expensive CPU ops, followed by the most expensive other ops."""
    run = diagnosis.run
    ops = run.ops
    time = ops["host_self_ps"] + ops["kernel_ps"]
    ranked = ops.loc[time.sort_values(ascending=False, kind="stable").index]
    on_cpu = (ranked["placement"] == "cpu") & (ranked["role"] == Role.COMPUTE)
    chosen = pd.concat([ranked[on_cpu].iloc[:most], ranked[~on_cpu].iloc[:most]])
    source_file = pd.Series(shown_files(chosen["source_file"], run), chosen.index, dtype=object)
    shown = chosen.assign(source_file=source_file, predicted_placement=None)
    if diagnosis.on_a_gpu is not None:
        computes = shown["role"] == Role.COMPUTE
        predicted = shown["op_id"].map(diagnosis.placement_on_a_gpu)
        shown["predicted_placement"] = predicted.where(computes, None)
    return table(in_us(shown), total_rows=len(ops))


# --- places ----------------------------------------------------------------------------------


def evidence_shown(evidence: Iterable[m.Evidence], run: Run) -> tuple[m.Evidence, ...]:
    """Return evidence with shortened file names and the text of each source line."""
    found = []
    for each in evidence:
        where = each.where
        if isinstance(where, m.SourceWhere):
            file, at = shown_files([where.file], run)[0] or where.file, where.line
            texts = (c.line_text(where.file, at) for _, c in run.captured if at is not None)
            where = replace(where, file=file, source=next(filter(None, texts), None))
        found.append(replace(each, where=where))
    return tuple(found)


def source_lines(rows: pd.DataFrame, run: Run, kind: str = "source") -> list[Line | None]:
    """Return the source line of each row, from the columns `KIND_file` and `KIND_line`."""
    pairs = zip(shown_files(rows[f"{kind}_file"], run), rows[f"{kind}_line"], strict=True)
    return [
        None if file is None else Line(file=file, line=None if pd.isna(number) else int(number))
        for file, number in pairs
    ]


def places(rows: pd.DataFrame, run: Run, kind: str = "source") -> list[str | None]:
    """Return the source line of each row as `file:line`."""
    return [None if at is None else plain((at,)) for at in source_lines(rows, run, kind)]


def line_texts(ops: pd.DataFrame, run: Run) -> list[str | None]:
    """Return the text of the source line that created each op, or None if not recorded."""
    captures = {host.name: capture_file for host, capture_file in run.captured}
    columns = (ops["host"].astype(str), ops["source_file"], ops["source_line"])
    return [
        captures[host].line_text(file, int(line))
        if host in captures and isinstance(file, str) and not pd.isna(line)
        else None
        for host, file, line in zip(*columns, strict=True)
    ]


def place_of(evidence: m.Evidence) -> str:
    """Return where evidence was found, as text, or "" for evidence from outside the run."""
    match evidence.where:
        case m.SourceWhere(file=file, line=line):
            return file if line is None else f"{file}:{line}"
        case m.CaptureFileWhere(capture_file=name):
            return f"recorded: {name}"
        case m.TraceWhere(plane=plane, line=thread):
            return f"trace: {plane}" + ("" if thread is None else f", {thread}")
    return ""

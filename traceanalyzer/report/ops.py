"""The ops of a run as two tables: the most expensive to read, and all to search."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from traceanalyzer.report.packed import Numbers, Texts, pack
from traceanalyzer.source_files import shown_files
from traceanalyzer.tables.vocabulary import Role
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.findings import Finding
    from traceanalyzer.model import PackedTable
    from traceanalyzer.run import Run

_STEPS_PER_US: Final = 1000  # times are kept in nanoseconds
_MAX_OPS: Final = 500  # rows of each of the two halves of the table that is read
_MAX_ROWS: Final = 50_000  # rows of the table that is searched
_MAX_BYTES: Final = 1_900_000  # of it in a page of five megabytes
# Characters of a text of it: names are cut in their middle before ops are left out.
_LONGEST: Final = (240, 96, 64)

_TEXTS: Final = (
    *("op_id", "name", "type", "placement", "cause", "certainty", "findings", "device", "host"),
    *("function", "role", "in_input_pipeline", "is_eager", "input_types", "requested_device"),
    "source",
)
_AS_RECORDED: Final = (
    *("op_id", "name", "type", "placement", "device", "host", "function", "role"),
    *("input_types", "requested_device"),
)
_COUNTS: Final = ("occurrences", "kernels", "h2d_bytes", "d2h_bytes")
_TIMES: Final = ("host_self_us", "host_nested_us", "exposed_us", "kernel_us", "copy_us")
_DIGITS: Final = re.compile(r"\d+")


# --- to be read ----------------------------------------------------------------------------


def most_expensive_ops(run: Run) -> pd.DataFrame:
    """Return the most expensive ops on the CPU, by host time, and of the others, by any time."""
    ops = run.ops
    on_cpu = (ops["placement"] == "cpu") & (ops["role"] == Role.COMPUTE)
    ranked = ops.loc[_time(ops).sort_values(ascending=False, kind="stable").index]
    first = on_cpu.loc[ranked.index]
    chosen = pd.concat([ranked[first].head(_MAX_OPS), ranked[~first].head(_MAX_OPS)])
    files = shown_files(chosen["source_file"], run)
    return chosen.assign(source_file=pd.Series(files, index=chosen.index, dtype=object))


def _time(ops: pd.DataFrame) -> pd.Series:
    return ops["host_self_ps"] + ops["kernel_ps"]


# --- to be searched ------------------------------------------------------------------------


def all_ops(diagnosis: Diagnosis) -> PackedTable | None:
    """Pack the ops of a run, each with its causes; None without ops.

    Columns:
        - texts ``op_id``, ``name``, ``type``, ``placement``, ``device``, ``host``, ``function``,
          ``role``, ``input_types``, ``requested_device``, ``source`` (``file:line``); ``yes`` or
          ``no`` in ``in_input_pipeline`` and ``is_eager``. None is unknown;
        - ``cause``, ``certainty`` and ``findings``: of the findings that name the op, joined by
          `` | `` in one order. A cause is ``unexplained`` where an op that needs one has none, and
          empty where it needs none;
        - counts ``occurrences``, ``kernels``, ``h2d_bytes`` and ``d2h_bytes``;
        - times in microseconds, to the nanosecond: ``host_self_us``, ``host_nested_us`` (of what it
          called on the same thread: mostly none, which takes less room than the sum of both),
          ``exposed_us``, ``kernel_us`` and ``copy_us``. All figures are of the whole run.

    The texts of a column, except ``op_id``, are in reading order, so that rows can be sorted by the
    indices of their texts. Rows: the CPU-placed ops by GPU wait, then the others by host and kernel
    time.
    """
    run = diagnosis.run
    if run.ops.empty:
        return None
    ops = _ranked(run.ops)
    shown = ops.head(_MAX_ROWS)
    causes = _causes(diagnosis.findings, diagnosis.unexplained["op_id"])
    frame = shown[[*_AS_RECORDED, *_COUNTS]].copy()
    nested = shown.assign(host_nested_ps=shown["host_total_ps"] - shown["host_self_ps"])
    for name in _TIMES:
        frame[name] = _plain(nested[f"{name.removesuffix('_us')}_ps"]) / PS_PER_US
    for name in ("in_input_pipeline", "is_eager"):
        frame[name] = np.where(shown[name], "yes", "no")
    frame["source"] = _sources(shown, run)
    none = ("", "", "")
    known = [causes.get(op_id, none) for op_id in shown["op_id"]]
    frame[["cause", "certainty", "findings"]] = pd.DataFrame(known, index=frame.index)
    return pack_ops(frame, len(ops))


def pack_ops(frame: pd.DataFrame, total_rows: int) -> PackedTable:
    """Pack rows of ops, in no more room than a page has for them.

    Where they take more, long texts are cut shorter; then of the last rows as many are left out as
    are too many.
    """
    numbers = {name: (_plain(frame[name]), 1) for name in _COUNTS}
    numbers |= {name: (_plain(frame[name]), _STEPS_PER_US) for name in _TIMES}
    for longest in _LONGEST:
        columns = {name: _texts(frame[name], longest, is_sorted=name != "op_id") for name in _TEXTS}
        packed = _packed(columns, numbers, len(frame), total_rows)
        if len(packed.data) <= _MAX_BYTES:
            break
    while len(packed.data) > _MAX_BYTES and packed.rows > 1:
        fewer = int(packed.rows * 0.99 * _MAX_BYTES / len(packed.data))
        packed = _packed(columns, numbers, max(1, fewer), total_rows)
    return packed


def _packed(
    texts: Mapping[str, Texts],
    numbers: Mapping[str, tuple[np.ndarray, int]],
    rows: int,
    total_rows: int,
) -> PackedTable:
    kept: dict[str, Texts | Numbers] = {
        name: _used(column.codes[:rows], column.texts) for name, column in texts.items()
    }
    for name, (column, per) in numbers.items():
        kept[name] = Numbers(column[:rows], per=per)
    return pack(kept, total_rows)


def _plain(column: pd.Series) -> np.ndarray:
    """Give the numbers of a column of any type, NaN where unknown."""
    return pd.to_numeric(column).astype("Float64").to_numpy(float, na_value=np.nan)


def _used(codes: np.ndarray, texts: Sequence[str]) -> Texts:
    """Leave out the texts that no row has."""
    used = np.unique(codes[codes >= 0])
    places = np.searchsorted(used, codes)
    return Texts(np.where(codes < 0, -1, places), [texts[code] for code in used.tolist()])


def _texts(column: pd.Series, longest: int, *, is_sorted: bool) -> Texts:
    """Give each row the place of its text among the distinct ones."""
    codes, distinct = pd.factorize(column.astype(object))
    shown = [_short(str(value), longest) for value in distinct.tolist()]
    if not is_sorted:
        return Texts(codes, shown)
    order = sorted(range(len(shown)), key=lambda k: _sort_key(shown[k]))
    places = np.empty(len(shown) + 1, np.int64)
    places[order] = np.arange(len(shown))
    places[-1] = -1  # where the code is -1, for None
    return Texts(places[codes], [shown[k] for k in order])


def _sort_key(value: str) -> tuple[str, str]:
    """Sort as readers do: by letters whatever their case, by numbers whatever their length."""
    return _DIGITS.sub(lambda found: found[0].zfill(12), value.lower()), value


def _short(value: str, longest: int) -> str:
    """Cut the middle out of a text that is too long to be carried thousands of times."""
    if len(value) <= longest:
        return value
    half = (longest - 1) // 2
    return f"{value[:half]}…{value[-half:]}"


def _ranked(ops: pd.DataFrame) -> pd.DataFrame:
    on_cpu = (ops["placement"] == "cpu") & (ops["role"] == Role.COMPUTE) & ~ops["in_input_pipeline"]
    waited = ops["exposed_ps"].astype("Int64").fillna(0).to_numpy(np.int64)
    time = _time(ops).to_numpy(np.int64)
    order = np.lexsort((-time, np.where(on_cpu, -waited, 0), ~on_cpu))
    return ops.iloc[order]


def _sources(ops: pd.DataFrame, run: Run) -> pd.Series:
    """Name the line each op comes from; each file is looked up once."""
    files = ops["source_file"]
    distinct = files.dropna().unique().tolist()
    shown = dict(zip(distinct, shown_files(distinct, run), strict=True))
    names = files.astype(object).map(shown)
    lines = ops["source_line"].astype("Int64").astype("string")
    with_line = names.astype("string") + ":" + lines
    return with_line.fillna(names.astype("string")).astype(object).where(names.notna(), None)


def _causes(
    findings: Sequence[Finding], unexplained: Iterable[str]
) -> dict[str, tuple[str, str, str]]:
    """Tell each op's causes, their certainties and the findings' ids."""
    found: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for finding in findings:
        of_itself = (finding.cause, finding.certainty, finding.id)
        for op_id in finding.op_ids:
            found[op_id].append(of_itself)
        dragged = (f"dragged_along_by_{finding.cause}", *of_itself[1:])
        for op_id in finding.dragged_along:
            found[op_id].append(dragged)
    joined: dict[str, tuple[str, str, str]] = {
        op_id: (" | ".join(c), " | ".join(s), " | ".join(i))
        for op_id, several in found.items()
        for c, s, i in [zip(*several, strict=True)]
    }
    for op_id in unexplained:
        joined.setdefault(op_id, ("unexplained", "", ""))
    return joined

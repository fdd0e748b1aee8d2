"""The stages of input pipelines: what each was asked for, what it took, how it is set up."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from traceanalyzer.native.events import sum_by
from traceanalyzer.tables.pipeline_events import Spans, parent_path, stage_events
from traceanalyzer.tables.schema import STAGES
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from traceanalyzer.tables.host_ops import HostOps
    from traceanalyzer.tables.pipeline_events import StageEvents
    from traceanalyzer.trace.columns import Strings


# dataset.cc, DatasetBase::Initialize: a dataset that its maker did not name is called after its
# type and a number that counts all datasets of the process.
_COUNTED: Final = re.compile(r"[A-Za-z]\w*:\d+")
# Bytes of a value (types.proto), by the name that dataset.h writes.
_BYTES_OF_TYPE: Final = {
    **dict.fromkeys(("bool", "int8", "uint8", "qint8", "quint8"), 1),
    **dict.fromkeys(("half", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("float", "int32", "uint32"), 4),
    **dict.fromkeys(("double", "int64", "uint64", "complex64"), 8),
    "complex128": 16,
}
# How big a stage's buffer is, by the kernel (prefetch_dataset_op.cc, shuffle_dataset_op.cc,
# map_and_batch_dataset_op.cc).
_BUFFER: Final = ("buffer_limit", "buffer_size", "max_batch_results")
_MOST_TYPES: Final = 8  # op types named of a stage's function
_NONE: Final = np.empty(0, np.int64)


def _no_spans() -> Spans:
    return Spans(row=_NONE, start_ps=_NONE, end_ps=_NONE)


@dataclass(frozen=True, eq=False, kw_only=True)
class Pipelines:
    """What one host's input pipelines did when; rows are those of its table of stages.

    Attributes:
        requests: The times in which the program asked for an element and had to wait, with the row
            of the outermost stage, -1 where that is not told.
        is_first: Which of them were the first of their iterator: it starts then.
        work: The times in which a stage was at work itself: not those in which it waited for its
            input, and of one that makes elements ahead those in which its function ran.
    """

    requests: Spans = field(default_factory=_no_spans)
    is_first: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    work: Spans = field(default_factory=_no_spans)


NO_PIPELINES: Final = Pipelines()


@cache
def no_stages() -> pd.DataFrame:
    """Return a table of stages without a row, always the same one."""
    return STAGES.frame([])


def pipelines(
    host_name: str, host: HostOps | None, of_occurrence: NDArray[np.int64], ops: pd.DataFrame
) -> tuple[pd.DataFrame, Pipelines]:
    """Build one host's rows of the table of stages, and the times behind them.

    Args:
        host_name: Name of the host.
        host: Op occurrences on its threads, or None.
        of_occurrence: Row of the op table of each of them, int64.
        ops: The op table.
    """
    events = None if host is None else stage_events(host)
    if host is None or events is None:
        return no_stages(), NO_PIPELINES
    if not len(events):
        return no_stages(), Pipelines(
            requests=_asked(events, np.full(1, -1, np.int64)),
            is_first=np.zeros(len(events.requests.event), np.bool_),
        )
    name = events.stats.strings("name")
    group = _pipeline_of(events, name)
    keys, row = _pairs(group, events.path)
    call_row = _row_of_calls(events, group, keys)
    columns = _Columns(events, keys, row, call_row)
    is_first = columns.first_of_iterator()
    table = {
        **columns.places(),
        **columns.times(is_first),
        **columns.settings(),
        **columns.functions(host, of_occurrence, ops),
        **columns.lines(name, host, of_occurrence, ops),
        "host": host_name,
    }
    return pd.DataFrame(table)[list(STAGES.columns)], Pipelines(
        requests=_asked(events, np.append(row, -1)),
        is_first=np.append(is_first, False)[events.requests.stage],
        work=_work(events, row, call_row),
    )


def _asked(events: StageEvents, row: NDArray[np.int64]) -> Spans:
    """Return what the program asked for; `row` has one more entry, for no stage."""
    asked = events.requests
    return Spans(
        row=row[asked.stage],
        start_ps=events.plane.start_ps[asked.event],
        end_ps=events.plane.end_ps[asked.event],
    )


def _work(events: StageEvents, row: NDArray[np.int64], call_row: NDArray[np.int64]) -> Spans:
    alone = events.alone
    own = ~events.is_async[events.path[alone.row]]
    calls = events.calls
    ahead = (call_row >= 0) & events.is_async[calls.path]
    return Spans(
        row=np.concatenate([row[alone.row[own]], call_row[ahead]]),
        start_ps=np.concatenate([alone.start_ps[own], calls.start_ps[ahead]]),
        end_ps=np.concatenate([alone.end_ps[own], calls.end_ps[ahead]]),
    )


# --- which pipeline an event is of -----------------------------------------------------------


class _Same:
    """Numbers that turn out to mean the same."""

    def __init__(self) -> None:
        self._of: list[int] = []

    def new(self) -> int:
        self._of.append(len(self._of))
        return len(self._of) - 1

    def find(self, number: int) -> int:
        while self._of[number] != number:
            self._of[number] = number = self._of[self._of[number]]
        return number

    def join(self, a: int, b: int) -> None:
        low, high = sorted((self.find(a), self.find(b)))
        self._of[high] = low


def _pairs(
    a: NDArray[np.int64], b: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct pairs of two columns from -1 up, sorted, and the place of each row's."""
    width = int(b.max(initial=-1)) + 2
    size = (int(a.max(initial=-1)) + 2) * width
    code = (a.astype(np.int64) + 1) * width + b + 1
    if size <= 4 * len(code) + 1024:  # counting is several times as fast as sorting
        used = np.flatnonzero(np.bincount(code, minlength=size))
        place = np.zeros(size, np.int64)
        place[used] = np.arange(len(used))
        row = place[code]
    else:
        used, row = np.unique(code, return_inverse=True)
        row = row.reshape(-1).astype(np.int64)
    return np.column_stack([used // width - 1, used % width - 1]), row


def _pipeline_of(events: StageEvents, names: Strings) -> NDArray[np.int64]:
    """Number the pipelines, in the order in which they began.

    Paths alone do not tell two pipelines of the same stages apart, and an iterator lives for one
    epoch. From an element up the way leads by `parent_id` to the iterator at the end; two of these
    are of one pipeline if they share a stage of the same name, which has a number of its own.
    Where a trace names no stages (before TensorFlow 2.13), those of the same path are one.
    """
    ids = events.stats.integers("id")
    parents = events.stats.integers("parent_id")
    label = np.full(len(events), -1, np.int64)
    same = _Same()
    by_name: dict[tuple[int, str | None], int] = {}
    codes, name_list = names.codes.astype(np.int64), names.values
    numbers = {p: k for k, p in enumerate(events.paths)}
    for number, path in enumerate(events.paths):
        at = np.flatnonzero(events.path == number)
        above = numbers.get(parent_path(path))
        if above is not None:
            label[at] = _by_parent(events, at, above, ids.values, parents, label)
        lost = at[label[at] < 0]
        label[lost] = _of_ancestors(events, lost, numbers, label)
        lost = at[label[at] < 0]
        # Iterators that are made anew all the time are not worth a pipeline each.
        apart = np.zeros(len(lost), np.int64) if events.counts_anew[number] else ids.values[lost]
        _, which = np.unique(apart, return_inverse=True)
        keyed, place = _pairs(codes[lost], which.reshape(-1))
        new = np.array([same.new() for _ in keyed], np.int64)
        label[lost] = new[place]
        if events.counts_anew[number]:
            continue  # made anew for each file or epoch: its names tell nothing
        for one, code in _pairs(label[at], codes[at])[0].tolist():
            text = name_list[code] if code >= 0 else None
            if text is None or _COUNTED.search(text):
                same.join(by_name.setdefault((number, text), one), one)
    joined = np.array([same.find(k) for k in range(int(label.max()) + 1)], np.int64)[label]
    first = np.full(int(joined.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, joined, events.plane.start_ps[events.event])
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rank[joined]


def _by_parent(  # noqa: PLR0913, PLR0917 - columns of one table, computed once by the caller
    events: StageEvents,
    at: NDArray[np.int64],
    above: int,
    ids: NDArray[np.int64],
    parents: Any,  # noqa: ANN401 - a column of whole numbers
    label: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the labels of the iterators above some events; -1 where there is none."""
    start = events.plane.start_ps[events.event]
    over = np.flatnonzero(events.path == above)
    over = over[np.argsort(start[over], kind="stable")]
    distinct, first = np.unique(ids[over], return_index=True)
    wanted = parents.values[at]
    slot = np.searchsorted(distinct, wanted).clip(max=max(len(distinct) - 1, 0))
    found = parents.present[at] & (distinct[slot] == wanted)
    by_id = np.where(found, label[over[first[slot]]], -1)
    # An id is an address: once an iterator is gone, that of another pipeline may have it. What asks
    # last before a request is the one that is alive.
    pairs = _pairs(np.searchsorted(distinct, ids[over]), label[over])[0][:, 0]
    for shared in np.flatnonzero(np.bincount(pairs, minlength=len(distinct)) > 1).tolist():
        alive = over[ids[over] == distinct[shared]]
        mine = np.flatnonzero(found & (slot == shared))
        last = np.searchsorted(start[alive], start[at[mine]], side="right") - 1
        by_id[mine] = label[alive[last.clip(0)]]
    around = events.outer[at]  # on the same thread there is no doubt
    direct = (around >= 0) & (np.append(events.path, -1)[around] == above)
    labels: NDArray[np.int64] = np.where(direct, np.append(label, -1)[around], by_id)
    return labels


def _of_ancestors(
    events: StageEvents,
    lost: NDArray[np.int64],
    numbers: dict[str, int],
    label: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the labels of events whose stage above left none; -1 where nothing tells.

    That is so where a trace begins or ends within a request. The event around one is of the same
    pipeline; else the nearest stage further up, if only one pipeline has it.
    """
    if not len(lost):
        return label[lost]
    found = np.where(events.outer[lost] >= 0, label[events.outer[lost]], -1)
    path = parent_path(events.paths[int(events.path[lost[0]])])
    while path and path not in numbers:
        path = parent_path(path)
    if path:
        labels = np.unique(label[events.path == numbers[path]])
        if len(labels) == 1:
            return np.where(found >= 0, found, labels[0])
    return found


def _row_of_calls(
    events: StageEvents, group: NDArray[np.int64], keys: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the row of the stage that made each call; -1 where it has none."""
    rows = {(g, p): k for k, (g, p) in enumerate(keys.tolist())}
    calls = events.calls
    pairs, place = _pairs(group[calls.near], calls.path)
    found = np.array([rows.get((g, p), -1) for g, p in pairs.tolist()], np.int64)
    return np.append(found, -1)[place]


# --- the columns -----------------------------------------------------------------------------


class _Columns:
    """Columns of the table of stages."""

    def __init__(
        self,
        events: StageEvents,
        keys: NDArray[np.int64],
        row: NDArray[np.int64],
        call_row: NDArray[np.int64],
    ) -> None:
        self._events = events
        self._keys = keys
        self._row = row
        self._call_row = call_row
        self._size = len(keys)
        self._paths = [events.paths[k] for k in keys[:, 1].tolist()]
        self._duration = events.plane.duration_ps[events.event]
        self._id = events.stats.integers("id").values

    def places(self) -> dict[str, Any]:
        """Return what and where the stages are."""
        held = set(zip(self._keys[:, 0].tolist(), self._paths, strict=True))
        parents = [parent_path(p) for p in self._paths]
        return {
            "pipeline": self._keys[:, 0],
            "stage": self._paths,
            "parent": [
                above if (group, above) in held else None
                for group, above in zip(self._keys[:, 0].tolist(), parents, strict=True)
            ],
            "type": [re.sub(r"\[\d+\]$", "", p.rpartition("::")[2]) for p in self._paths],
            "is_async": self._events.is_async[self._keys[:, 1]],
        }

    def first_of_iterator(self) -> NDArray[np.bool_]:
        """Tell which events were the first of their iterator."""
        start = self._events.plane.start_ps[self._events.event]
        order = np.lexsort((start, self._id, self._row))
        is_new = np.append(
            True,
            (np.diff(self._row[order]) != 0) | (np.diff(self._id[order]) != 0),
        )
        first = np.zeros(len(self._row), np.bool_)
        first[order[is_new]] = True
        return first

    def times(self, is_first: NDArray[np.bool_]) -> dict[str, Any]:
        """Return how often the stages were asked, and for how long."""
        total = sum_by(self._row, self._duration, self._size)
        above = self._row_above()
        line = self._events.plane.line_of[self._events.event]
        threads = _pairs(self._row, line.astype(np.int64))[0][:, 0]
        return {
            "iterators": np.bincount(self._row[is_first], minlength=self._size),
            "elements": np.bincount(self._row, minlength=self._size),
            "total_ps": total,
            "self_ps": sum_by(self._row, self._events.self_ps, self._size),
            "input_ps": sum_by(above, total, self._size),
            "first_ps": sum_by(self._row[is_first], self._duration[is_first], self._size),
            "threads": np.bincount(threads, minlength=self._size),
        }

    def _row_above(self) -> NDArray[np.int64]:
        """Return the row of the stage that takes each stage's elements; -1 for none."""
        groups = self._keys[:, 0].tolist()
        rows = {key: k for k, key in enumerate(zip(groups, self._paths, strict=True))}
        return np.array(
            [rows.get((g, parent_path(p)), -1) for g, p in zip(groups, self._paths, strict=True)],
            np.int64,
        )

    def settings(self) -> dict[str, Any]:
        """Return how the stages are set up."""
        buffer = self._largest(_BUFFER[0])
        for stat in _BUFFER[1:]:
            further = self._largest(stat)
            buffer = [b if a is None else a for a, b in zip(buffer, further, strict=True)]
        return {
            "parallelism": _integers(self._largest("parallelism")),
            "autotune": pd.array(self._flag("autotune"), dtype="boolean"),
            "buffer_size": _integers(buffer),
            "batch_size": _integers(self._largest("batch_size")),
            "cycle_length": _integers(self._largest("cycle_length")),
            "cpu_budget": _integers(self._largest("cpu_budget")),
            "element_bytes": _integers(self._element_bytes()),
        }

    def _largest(self, stat: str) -> list[int | None]:
        """Return the largest value of a stat; autotuning raises it while the program runs."""
        column = self._events.stats.integers(stat)
        known = column.present & (column.values >= 0)
        found = np.full(self._size, -1, np.int64)
        np.maximum.at(found, self._row[known], column.values[known])
        return [None if v < 0 else v for v in found.tolist()]

    def _flag(self, stat: str) -> list[bool | None]:
        column = self._events.stats.strings(stat)
        found: list[bool | None] = [None] * self._size
        for value in ("true", "false"):
            if value in column.values:
                code = column.values.index(value)
                for k in np.unique(self._row[column.codes == code]).tolist():
                    found[k] = value == "true" or bool(found[k])
        return found

    def _element_bytes(self) -> list[int | None]:
        """Return the size of an element: as told for the last stage, else by shape and type."""
        shapes, types = self._events.stats.strings("shapes"), self._events.stats.strings("types")
        asked = self._events.requests
        told = (asked.stage >= 0) & (asked.element_bytes >= 0)
        largest = np.full(self._size, -1, np.int64)
        np.maximum.at(largest, self._row[asked.stage[told]], asked.element_bytes[told])
        found: list[int | None] = [None if v < 0 else v for v in largest.tolist()]
        some = _any_of_each(self._row, self._size)
        for k, event in enumerate(some.tolist()):
            if found[k] is None and shapes.codes[event] >= 0 and types.codes[event] >= 0:
                found[k] = _size_of(
                    shapes.values[shapes.codes[event]], types.values[types.codes[event]]
                )
        return found

    def functions(
        self, host: HostOps, of_occurrence: NDArray[np.int64], ops: pd.DataFrame
    ) -> dict[str, Any]:
        """Return what the functions took that the stages apply, and what runs in them."""
        calls = self._events.calls
        known = self._call_row >= 0
        count = np.bincount(self._call_row[known], minlength=self._size)
        took = sum_by(self._call_row, calls.end_ps - calls.start_ps, self._size)
        occurrence, row = self._ops_of_calls(host)
        own = host.self_ps[occurrence]
        name = host.name[occurrence].astype(np.int64)
        is_python = np.isin(np.array(host.names.type), PYTHON_CALLBACKS)[name]
        files, lines = self._lines_of_functions(of_occurrence[occurrence], row, own, ops)
        return {
            "calls": count,
            "call_ps": _where(took, count > 0),
            "op_ps": _where(sum_by(row, own, self._size), count > 0),
            "python_ps": _where(sum_by(row[is_python], own[is_python], self._size), count > 0),
            "ops": _dearest_types(row, name, host.names.type, own, self._size),
            "function_file": files,
            "function_line": _integers(lines),
        }

    def _ops_of_calls(self, host: HostOps) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the op occurrences within calls, and the rows of the stages that called."""
        calls = self._events.calls
        known = (self._call_row >= 0) & (calls.step != 0)
        step, first = np.unique(calls.step[known], return_index=True)
        if not len(step):
            return _NONE, _NONE
        of_step = self._call_row[known][first]
        slot = np.searchsorted(step, host.call).clip(max=len(step) - 1)
        occurrence = np.flatnonzero(step[slot] == host.call)
        return occurrence, of_step[slot[occurrence]]

    def _lines_of_functions(
        self,
        op: NDArray[np.int64],
        row: NDArray[np.int64],
        own: NDArray[np.int64],
        ops: pd.DataFrame,
    ) -> tuple[list[str | None], list[int | None]]:
        """Return a line of each function: that of its dearest op whose line is recorded."""
        files: list[str | None] = [None] * self._size
        lines: list[int | None] = [None] * self._size
        lined = ops["source_line"].notna().to_numpy()[op]
        for k in np.unique(row[lined]).tolist():
            mine = lined & (row == k)
            candidates, inverse = np.unique(op[mine], return_inverse=True)
            dearest = int(
                candidates[sum_by(inverse.reshape(-1), own[mine], len(candidates)).argmax()]
            )
            files[k] = ops["source_file"].iloc[dearest]
            lines[k] = int(ops["source_line"].iloc[dearest])
        return files, lines

    def lines(
        self, names: Strings, host: HostOps, of_occurrence: NDArray[np.int64], ops: pd.DataFrame
    ) -> dict[str, Any]:
        """Return what TensorFlow calls the datasets, and the lines that made them."""
        told: list[set[str]] = [set() for _ in range(self._size)]
        for k, code in _pairs(self._row, names.codes.astype(np.int64))[0].tolist():
            if code >= 0:
                told[k].add(names.values[code])
        single = [next(iter(t)) if len(t) == 1 else None for t in told]
        counted = {m for t in names.values for m in _COUNTED.findall(t)}
        made = _making_lines(host, of_occurrence, ops, counted)
        found = [_line_of(name, made) for name in single]
        return {
            "name": single,
            "source_file": [f for f, _ in found],
            "source_line": _integers([n for _, n in found]),
        }


def _any_of_each(row: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return one entry of each row."""
    some = np.zeros(size, np.int64)
    some[row] = np.arange(len(row))
    return some


def _size_of(shapes: str, types: str) -> int | None:
    """Return the bytes of an element of these shapes, `[8,3] [1]`; None where one is not known."""
    sizes = re.findall(r"\[([\d,]*)\]", shapes)
    kinds = types.split()
    if len(sizes) != len(kinds) or len(sizes) != shapes.count("["):
        return None
    each = [_BYTES_OF_TYPE.get(kind) for kind in kinds]
    counts = [math.prod(int(n) for n in size.split(",") if n) for size in sizes]
    if any(width is None for width in each):
        return None
    return sum(n * (width or 0) for n, width in zip(counts, each, strict=True))


def _integers(values: Sequence[int | None]) -> pd.api.extensions.ExtensionArray:
    return pd.array(list(values), dtype="Int64")


def _where(values: NDArray[np.int64], known: NDArray[np.bool_]) -> pd.api.extensions.ExtensionArray:
    return pd.arrays.IntegerArray(values.astype(np.int64), ~known)


def _dearest_types(
    row: NDArray[np.int64],
    name: NDArray[np.int64],
    types: Sequence[str],
    own: NDArray[np.int64],
    size: int,
) -> list[str | None]:
    sums: list[dict[str, int]] = [defaultdict(int) for _ in range(size)]
    pairs, place = _pairs(row, name)
    took = sum_by(place, own, len(pairs))
    for (k, kind), ps in zip(pairs.tolist(), took.tolist(), strict=True):
        sums[k][types[kind]] += ps
    return [
        ", ".join(sorted(found, key=lambda t: (-found[t], t))[:_MOST_TYPES]) or None
        for found in sums
    ]


# --- lines -----------------------------------------------------------------------------------

_Line = tuple[str | None, int | None]


def _making_lines(
    host: HostOps, of_occurrence: NDArray[np.int64], ops: pd.DataFrame, names: set[str]
) -> dict[str, _Line]:
    """Return the line that made each dataset, where a capture recorded it.

    A program makes its datasets eagerly, in the order of their numbers. If all ops of a type have
    one line, or there are as many numbers as ops, that tells which is which; else nothing does.
    """
    found: dict[str, _Line] = {}
    for kind in {name.partition(":")[0] for name in names}:
        is_kind = np.array([t == kind for t in host.names.type], np.bool_)
        made = np.flatnonzero((host.kind == Kind.EAGER_OP) & is_kind[host.name])
        made = made[np.argsort(host.plane.start_ps[host.event[made]], kind="stable")]
        rows = ops.iloc[of_occurrence[made]]
        if rows["source_line"].isna().any():
            continue
        lines = [
            (str(file), int(line))
            for file, line in zip(rows["source_file"], rows["source_line"], strict=True)
        ]
        numbered = sorted(
            (n for n in names if n.partition(":")[0] == kind),
            key=lambda n: int(n.partition(":")[2]),
        )
        if len(set(lines)) == 1:
            found |= dict.fromkeys(numbered, lines[0])
        elif len(lines) == len(numbered):
            found |= dict(zip(numbered, lines, strict=True))
    return found


def _line_of(name: str | None, made: dict[str, _Line]) -> _Line:
    """Return the line of a dataset; of one that TensorFlow made of several, of the first."""
    for part in _COUNTED.findall(name or ""):
        if part in made:
            return made[part]
    return None, None

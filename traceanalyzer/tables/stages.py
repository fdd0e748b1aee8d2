"""The table of stages of input pipelines: what each did, how long it took, how it is set up."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from traceanalyzer.native.events import sum_by
from traceanalyzer.tables.arrays import distinct_rows, mask, pick, place_of
from traceanalyzer.tables.stage_events import COUNTED, parent_path
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.tables.arrays import Flags, Ints
    from traceanalyzer.tables.host_ops import HostOps
    from traceanalyzer.tables.op_occurrences import OpOccurrences
    from traceanalyzer.tables.stage_events import StageEvents

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
_Line = tuple[str | None, int | None]


class StageColumns:
    """Computes the columns of one host's table of stages."""

    def __init__(self, events: StageEvents, keys: Ints, row: Ints, call_row: Ints) -> None:
        """Take the pipeline and path of each row, and the row of each event and of each call."""
        self._events = events
        self._keys = keys
        self._row = row
        self._call_row = call_row
        self._size = len(keys)
        self._paths = [events.paths[k] for k in keys[:, 1].tolist()]
        rows = {key: k for k, key in enumerate(zip(keys[:, 0].tolist(), self._paths, strict=True))}
        # The row of the stage that takes each stage's elements; -1 for none.
        self._row_above = np.array([rows.get((g, parent_path(p)), -1) for g, p in rows], np.int64)
        #: Which events were the first of their iterator.
        self.is_first = self._first_of_iterator()

    def table(self, occurrences: OpOccurrences, ops: pd.DataFrame) -> pd.DataFrame:
        """Return the table, without the host."""
        return pd.DataFrame(
            {
                "pipeline": self._keys[:, 0],
                "stage": self._paths,
                "parent": [
                    self._paths[above] if above >= 0 else None for above in self._row_above.tolist()
                ],
                "type": [re.sub(r"\[\d+\]$", "", p.rpartition("::")[2]) for p in self._paths],
                "is_async": self._events.is_async[self._keys[:, 1]],
                **self._times(),
                **self._settings(),
                **self._functions(occurrences, ops),
                **self._lines(occurrences, ops),
            }
        )

    def _first_of_iterator(self) -> Flags:
        start = self._events.plane.start_ps[self._events.event]
        iterator = self._events.integers("id").values
        order = np.lexsort((start, iterator, self._row))
        is_new = (np.diff(self._row[order]) != 0) | (np.diff(iterator[order]) != 0)
        first = np.zeros(len(self._row), np.bool_)
        first[order[np.append(True, is_new)]] = True
        return first

    def _times(self) -> dict[str, Any]:
        """Return how often the stages were requested, and for how long."""
        events, row, is_first = self._events, self._row, self.is_first
        duration = events.plane.duration_ps[events.event]
        total = sum_by(row, duration, self._size)
        line = events.plane.line_of[events.event]
        return {
            "iterators": np.bincount(row[is_first], minlength=self._size),
            "elements": np.bincount(row, minlength=self._size),
            "total_ps": total,
            "self_ps": sum_by(row, events.self_ps, self._size),
            "input_ps": sum_by(self._row_above, total, self._size),
            "first_ps": sum_by(row[is_first], duration[is_first], self._size),
            "threads": np.bincount(distinct_rows([row, line])[1][:, 0], minlength=self._size),
        }

    def _settings(self) -> dict[str, Any]:
        """Return how the stages are set up."""
        buffer = self._largest(_BUFFER[0])
        for stat in _BUFFER[1:]:
            buffer = np.where(buffer < 0, self._largest(stat), buffer)
        numbers = ("parallelism", "batch_size", "cycle_length", "cpu_budget")
        flag = self._events.strings("autotune")
        values = np.array([{"true": 1, "false": 0}.get(v, -1) for v in flag.values], np.int64)
        autotune = self._maximum(self._row, pick(values, flag.codes))
        return {
            **{stat: _known(self._largest(stat)) for stat in numbers},
            "autotune": pd.arrays.BooleanArray(autotune > 0, autotune < 0),
            "buffer_size": _known(buffer),
            "element_bytes": _known(self._element_bytes()),
        }

    def _largest(self, stat: str) -> Ints:
        """Return the largest value of a stat; autotuning raises it while the program runs."""
        column = self._events.integers(stat)
        return self._maximum(self._row, np.where(column.present, column.values, -1))

    def _maximum(self, row: Ints, values: Ints) -> Ints:
        """Return the largest value of each row, -1 for none."""
        found = np.full(self._size, -1, np.int64)
        np.maximum.at(found, row, values)
        return found

    def _element_bytes(self) -> Ints:
        """Return the size of an element: as recorded for the last stage, or by shape and type."""
        shapes, types = self._events.strings("shapes"), self._events.strings("types")
        requests = self._events.requests
        known = requests.stage >= 0
        found = self._maximum(self._row[requests.stage[known]], requests.element_bytes[known])
        event_of = np.zeros(self._size, np.int64)
        event_of[self._row] = np.arange(len(self._row))  # any event of each row
        for k, event in enumerate(event_of.tolist()):
            if found[k] < 0 and shapes.codes[event] >= 0 and types.codes[event] >= 0:
                found[k] = _size_of(
                    shapes.values[shapes.codes[event]], types.values[types.codes[event]]
                )
        return found

    def _functions(self, occurrences: OpOccurrences, ops: pd.DataFrame) -> dict[str, Any]:
        """Return how long the functions ran that the stages apply, and what runs in them."""
        host, calls = occurrences.host, self._events.calls
        known = self._call_row >= 0
        count = np.bincount(self._call_row[known], minlength=self._size)
        occurrence, row = self._ops_of_calls(host)
        own_ps = host.self_ps[occurrence]
        name = host.name[occurrence].astype(np.int64)
        is_python = mask(t in PYTHON_CALLBACKS for t in host.names.type)[name]
        python_ps = sum_by(row[is_python], own_ps[is_python], self._size)
        files, lines = self._lines_of_functions(
            occurrences.of_occurrence[occurrence], row, own_ps, ops
        )

        def of_called(values: Ints) -> pd.arrays.IntegerArray:
            return pd.arrays.IntegerArray(values, count == 0)

        return {
            "calls": count,
            "call_ps": of_called(sum_by(self._call_row, calls.end_ps - calls.start_ps, self._size)),
            "op_ps": of_called(sum_by(row, own_ps, self._size)),
            "python_ps": of_called(python_ps),
            "ops": _types_by_time(row, name, host.names.type, own_ps, self._size),
            "function_file": files,
            "function_line": pd.array(lines, dtype="Int64"),
        }

    def _ops_of_calls(self, host: HostOps) -> tuple[Ints, Ints]:
        """Return the op occurrences within calls, and the rows of the stages that called."""
        calls = self._events.calls
        known = (self._call_row >= 0) & (calls.step != 0)
        step, first = np.unique(calls.step[known], return_index=True)
        row = pick(self._call_row[known][first], place_of(step, host.call))
        occurrence = np.flatnonzero(row >= 0)
        return occurrence, row[occurrence]

    def _lines_of_functions(
        self, op: Ints, row: Ints, own_ps: Ints, ops: pd.DataFrame
    ) -> tuple[list[str | None], list[int | None]]:
        """Return a line of each function: that of its most expensive op with a recorded line."""
        files: list[str | None] = [None] * self._size
        lines: list[int | None] = [None] * self._size
        lined = ops["source_line"].notna().to_numpy()[op]
        place, pairs = distinct_rows([row[lined], op[lined]])
        total = sum_by(place, own_ps[lined], len(pairs))
        for k, candidate in pairs[np.lexsort((-pairs[:, 1], total))].tolist():
            files[k] = ops["source_file"].iloc[candidate]  # the most expensive one comes last
            lines[k] = int(ops["source_line"].iloc[candidate])
        return files, lines

    def _lines(self, occurrences: OpOccurrences, ops: pd.DataFrame) -> dict[str, Any]:
        """Return TensorFlow's names of the datasets, and the lines that made them."""
        names = self._events.strings("name")
        of_row: list[set[str]] = [set() for _ in range(self._size)]
        for k, code in distinct_rows([self._row, names.codes])[1].tolist():
            if code >= 0:
                of_row[k].add(names.values[code])
        single = [next(iter(found)) if len(found) == 1 else None for found in of_row]
        counted = {match for text in names.values for match in COUNTED.findall(text)}
        made = _making_lines(occurrences, ops, counted)
        lines = [_line_of(name, made) for name in single]
        return {
            "name": single,
            "source_file": [file for file, _ in lines],
            "source_line": pd.array([number for _, number in lines], dtype="Int64"),
        }


def _size_of(shapes: str, types: str) -> int:
    """Return the bytes of an element of these shapes, `[8,3] [1]`; -1 where one is unknown."""
    sizes = re.findall(r"\[([\d,]*)\]", shapes)
    kinds = types.split()
    is_known = len(sizes) == len(kinds) == shapes.count("[") and {*kinds} <= {*_BYTES_OF_TYPE}
    if not is_known:
        return -1
    counts = [math.prod(int(n) for n in size.split(",") if n) for size in sizes]
    return sum(n * _BYTES_OF_TYPE[kind] for n, kind in zip(counts, kinds, strict=True))


def _known(values: Ints) -> pd.arrays.IntegerArray:
    return pd.arrays.IntegerArray(values, values < 0)


def _types_by_time(
    row: Ints, name: Ints, types: Sequence[str], own_ps: Ints, size: int
) -> list[str | None]:
    """Return the op types of each row that took most time."""
    sums: list[dict[str, int]] = [defaultdict(int) for _ in range(size)]
    place, pairs = distinct_rows([row, name])
    total = sum_by(place, own_ps, len(pairs))
    for (k, kind), ps in zip(pairs.tolist(), total.tolist(), strict=True):
        sums[k][types[kind]] += ps
    return [
        ", ".join(sorted(found, key=lambda t: (-found[t], t))[:_MOST_TYPES]) or None
        for found in sums
    ]


def _making_lines(
    occurrences: OpOccurrences, ops: pd.DataFrame, names: set[str]
) -> dict[str, _Line]:
    """Return the line that made each dataset, where a capture recorded it.

    A program makes its datasets eagerly, in the order of their numbers. Which is which is known
    only if all ops of a type have one line, or if there are as many numbers as ops.
    """
    host = occurrences.host
    found: dict[str, _Line] = {}
    for kind in {name.partition(":")[0] for name in names}:
        is_kind = mask(t == kind for t in host.names.type)
        made = np.flatnonzero((host.kind == Kind.EAGER_OP) & is_kind[host.name])
        made = made[np.argsort(host.plane.start_ps[host.event[made]], kind="stable")]
        rows = ops.iloc[occurrences.of_occurrence[made]]
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
    for part in COUNTED.findall(name or ""):
        if part in made:
            return made[part]
    return None, None

"""Builds the table of input pipeline stages: their requests, durations, and settings."""

import math
import re
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pandas as pd

from traceanalyzer.native.events import sum_by
from traceanalyzer.tables.arrays import (
    Flags,
    Ints,
    distinct_rows,
    last_of,
    mask,
    pick,
    place_of,
    self_durations,
)
from traceanalyzer.tables.occurrences import OpOccurrences
from traceanalyzer.tables.schema import STAGES
from traceanalyzer.tables.stage_events import COUNTED, StageEvents, StageIntervals
from traceanalyzer.tables.vocabulary import DTYPE_BYTES, PYTHON_CALLBACKS, Kind

# The size of a buffer (prefetch_dataset_op.cc, shuffle_dataset_op.cc, map_and_batch_dataset_op.cc).
_BUFFER: Final = ("buffer_limit", "buffer_size", "max_batch_results")
_MOST_TYPES: Final = 8  # op types listed for a stage's function
_NONE: Final = np.empty(0, np.int64)
_NO_SPANS: Final = StageIntervals(_NONE, _NONE, _NONE)
_Line = tuple[str | None, int | None]


@dataclass(frozen=True, eq=False, kw_only=True)
class Pipelines:
    """The times when one host's input pipelines were active, by row of the table of stages."""

    requests: StageIntervals = (
        _NO_SPANS  #: waits of the program; the row is the last stage's, or -1
    )
    #: Which of these waits were the first of their iterator, which starts then.
    is_first: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))
    #: When a stage worked, without waiting for its input. A stage that makes elements ahead works
    #: while its function runs.
    work: StageIntervals = _NO_SPANS


NO_PIPELINES: Final = Pipelines()
NO_STAGES: Final = STAGES.frame([])


def pipelines(occurrences: OpOccurrences, ops: pd.DataFrame) -> tuple[pd.DataFrame, Pipelines]:
    """Build one host's rows of the table of stages, and its pipelines' activity."""
    events = StageEvents(occurrences.host)
    if not events:
        return NO_STAGES, NO_PIPELINES
    stages = _Stages(events)
    plane, requests, alone, calls = events.plane, stages.requests, events.alone, stages.calls
    own = ~events.is_async[events.path[alone.row]]
    ahead = (stages.call_row >= 0) & events.is_async[calls.path]
    return stages.table(occurrences, ops), Pipelines(
        requests=StageIntervals(
            pick(stages.row, requests.stage),
            plane.start_ps[requests.event],
            plane.end_ps[requests.event],
        ),
        is_first=pick(stages.is_first, requests.stage, missing=False),
        work=StageIntervals(
            np.append(stages.row[alone.row[own]], stages.call_row[ahead]),
            np.append(alone.start_ps[own], calls.start_ps[ahead]),
            np.append(alone.end_ps[own], calls.end_ps[ahead]),
        ),
    )


class _Stages:
    """The stages of one host, with a row for each path of each pipeline."""

    def __init__(self, events: StageEvents) -> None:
        pipeline = events.pipeline()
        keys, row = np.unique(np.column_stack([pipeline, events.path]), axis=0, return_inverse=True)
        self._events = events
        self._pipeline, self._path = keys.T
        self._size = len(keys)
        self.row = row.reshape(-1)  #: of each event
        self.requests, self.calls = events.requests(), events.calls()
        rows = {tuple(key): k for k, key in enumerate(keys.tolist())}
        place, pairs = distinct_rows([pipeline[self.calls.near], self.calls.path])
        of_pairs = [rows.get(tuple(pair), -1) for pair in pairs.tolist()]
        #: Row of the stage that made each call; -1 if it has no row.
        self.call_row = np.array(of_pairs, np.int64)[place]
        # The row of the stage that consumes each stage's elements; -1 for none.
        above = [rows.get((g, int(events.above[p])), -1) for g, p in rows]
        self._row_above = np.array(above, np.int64)
        order = np.argsort(events.start_ps, kind="stable")
        iterators = pd.DataFrame({"row": self.row, "id": events.integers("id").values})
        #: Which events were the first of their iterator.
        self.is_first = (~iterators.iloc[order].duplicated()).sort_index().to_numpy()

    def table(self, occurrences: OpOccurrences, ops: pd.DataFrame) -> pd.DataFrame:
        """Return the table of stages, without the column `host`."""
        paths = np.array(self._events.paths, object)[self._path]
        return pd.DataFrame(
            {
                "pipeline": self._pipeline,
                "stage": paths,
                "parent": pick(paths, self._row_above, None),
                "type": [re.sub(r"\[\d+\]$", "", p.rpartition("::")[2]) for p in paths],
                "is_async": self._events.is_async[self._path],
                **self._times(),
                **self._settings(),
                **self._functions(occurrences, ops),
                **self._lines(occurrences, ops),
            }
        )

    def _times(self) -> dict[str, Any]:
        events, row, is_first, size = self._events, self.row, self.is_first, self._size
        duration = events.plane.duration_ps[events.event]
        total = sum_by(row, duration, size)
        line = events.plane.line_of[events.event]
        return {
            "iterators": np.bincount(row[is_first], minlength=size),
            "elements": np.bincount(row, minlength=size),
            "total_ps": total,
            "self_ps": sum_by(row, self_durations(duration, events.outer), size),
            "input_ps": sum_by(self._row_above, total, size),
            "first_ps": sum_by(row[is_first], duration[is_first], size),
            "threads": np.bincount(distinct_rows([row, line])[1][:, 0], minlength=size),
        }

    def _settings(self) -> dict[str, Any]:
        buffer = self._largest(_BUFFER[0])
        for stat in _BUFFER[1:]:
            buffer = np.where(buffer < 0, self._largest(stat), buffer)
        numbers = ("parallelism", "batch_size", "cycle_length", "cpu_budget")
        flag = self._events.strings("autotune")
        values = np.array([{"true": 1, "false": 0}.get(v, -1) for v in flag.values], np.int64)
        autotune = self._maximum(self.row, pick(values, flag.codes))
        return {
            **{stat: _known(self._largest(stat)) for stat in numbers},
            "autotune": pd.arrays.BooleanArray(autotune > 0, autotune < 0),
            "buffer_size": _known(buffer),
            "element_bytes": _known(self._element_bytes()),
        }

    def _largest(self, stat: str) -> Ints:
        """Return the largest value of a stat per stage, since autotuning raises it over time."""
        column = self._events.integers(stat)
        return self._maximum(self.row, np.where(column.present, column.values, -1))

    def _maximum(self, row: Ints, values: Ints) -> Ints:
        found = np.full(self._size, -1, np.int64)
        np.maximum.at(found, row, values)
        return found

    def _element_bytes(self) -> Ints:
        """Return each stage's element size in bytes, as recorded or from shapes and types."""
        shapes, types = (self._events.strings(stat).to_list() for stat in ("shapes", "types"))
        known = self.requests.stage >= 0
        at = self.row[self.requests.stage[known]]
        found = self._maximum(at, self.requests.element_bytes[known])
        last = last_of(self.row, np.arange(len(self.row)), np.arange(self._size))
        for k, event in enumerate(last.tolist()):  # any event of each row
            shape, type_ = shapes[event], types[event]
            if found[k] < 0 and shape is not None and type_ is not None:
                found[k] = _size_of(shape, type_)
        return found

    def _functions(self, occurrences: OpOccurrences, ops: pd.DataFrame) -> dict[str, Any]:
        host, calls, size = occurrences.host, self.calls, self._size
        is_called = self.call_row >= 0
        count = np.bincount(self.call_row[is_called], minlength=size)
        # The op occurrences within calls, and the rows of the stages that called.
        known = is_called & (calls.step != 0)
        step, first = np.unique(calls.step[known], return_index=True)
        row = pick(self.call_row[known][first], place_of(step, host.call))
        occurrence = np.flatnonzero(row >= 0)
        row, own_ps = row[occurrence], host.self_ps[occurrence]
        op, name = occurrences.of_occurrence[occurrence], host.name[occurrence]
        kinds = sorted({host.names.type[k] for k in np.unique(name).tolist()})
        number = {kind: k for k, kind in enumerate(kinds)}
        kind = np.array([number.get(t, -1) for t in host.names.type], np.int64)[name]

        def by_time(part: Ints, chosen: Flags) -> list[list[int]]:
            """Return the distinct pairs of row and `part`, longest total time first."""
            place, pairs = distinct_rows([row[chosen], part[chosen]])
            total = sum_by(place, own_ps[chosen], len(pairs))
            found: list[list[int]] = pairs[np.lexsort((pairs[:, 1], -total))].tolist()
            return found

        types: list[list[str]] = [[] for _ in range(size)]
        for k, most in by_time(kind, np.ones(len(row), np.bool_)):
            types[k].append(kinds[most])
        # The line of a function is that of its most expensive op with a recorded line.
        best: dict[int, int] = {}
        for k, most in by_time(op, ops["source_line"].notna().to_numpy()[op]):
            best.setdefault(k, most)
        places = ops[["source_file", "source_line"]].reindex([best.get(k, -1) for k in range(size)])
        is_python = mask(t in PYTHON_CALLBACKS for t in kinds)[kind]

        def of_called(values: Ints) -> pd.arrays.IntegerArray:
            return pd.arrays.IntegerArray(values, count == 0)

        return {
            "calls": count,
            "call_ps": of_called(sum_by(self.call_row, calls.end_ps - calls.start_ps, size)),
            "op_ps": of_called(sum_by(row, own_ps, size)),
            "python_ps": of_called(sum_by(row[is_python], own_ps[is_python], size)),
            "ops": [", ".join(found[:_MOST_TYPES]) or None for found in types],
            "function_file": places["source_file"].to_numpy(object),
            "function_line": places["source_line"].array,
        }

    def _lines(self, occurrences: OpOccurrences, ops: pd.DataFrame) -> dict[str, Any]:
        names = self._events.strings("name")
        of_row: list[set[str]] = [set() for _ in range(self._size)]
        for k, code in distinct_rows([self.row, names.codes])[1].tolist():
            if code >= 0:
                of_row[k].add(names.values[code])
        single = [found.pop() if len(found) == 1 else None for found in of_row]
        counted = {match for text in names.values for match in COUNTED.findall(text)}
        made = _making_lines(occurrences, ops, counted)
        # If TensorFlow fused several datasets into one, use the line of the first.
        lines = [
            next((made[part] for part in COUNTED.findall(name or "") if part in made), (None, None))
            for name in single
        ]
        return {
            "name": single,
            "source_file": [file for file, _ in lines],
            "source_line": pd.array([number for _, number in lines], dtype="Int64"),
        }


def _size_of(shapes: str, types: str) -> int:
    """Return an element's size in bytes, from shapes such as `[8,3] [1]`, or -1 if unknown."""
    sizes = re.findall(r"\[([\d,]*)\]", shapes)
    kinds = types.split()
    is_known = len(sizes) == len(kinds) == shapes.count("[") and {*kinds} <= {*DTYPE_BYTES}
    if not is_known:
        return -1
    counts = [math.prod(int(n) for n in size.split(",") if n) for size in sizes]
    return sum(n * DTYPE_BYTES[kind] for n, kind in zip(counts, kinds, strict=True))


def _known(values: Ints) -> pd.arrays.IntegerArray:
    return pd.arrays.IntegerArray(values, values < 0)


def _making_lines(
    occurrences: OpOccurrences, ops: pd.DataFrame, names: set[str]
) -> dict[str, _Line]:
    """Return the source line that created each dataset, if a capture file has it.

    A program creates its datasets eagerly, in the order of their numbers. The lines are known if
    all dataset ops of one type share a line, or if there are as many numbers as ops.
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

"""Finds fixes for a slow stage, with the most time that each can save per step.

It comes from a model of the pipeline (`throughput`), given the least work that the stage can have
after the change. It never exceeds the measured wait.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from traceanalyzer.data_files import toml
from traceanalyzer.format import counted, percent_text, size_text
from traceanalyzer.input_pipeline.throughput import PROGRAM, Pipeline, is_positive

_MAPS: Final = re.compile(r"Map|MapAndBatch\w*|ParallelMap\w*")
_FILES: Final = re.compile(r"TFRecord\w*|TextLine\w*|FixedLengthRecord\w*|CSV\w*")
_BATCHES: Final = re.compile(r"\w*Batch\w*")
# Stages that restart their inputs for each element: iterators below them count files, not epochs.
_FANS_OUT: Final = re.compile(r"\w*Interleave\w*|FlatMap\w*")
_CACHE: Final = re.compile(r"\w*Cache\w*")
_SHUFFLE: Final = re.compile(r"Shuffle\w*")
_RANDOM: Final = re.compile(r"\bRandom|Random\w*|Multinomial|StatelessTruncatedNormal\w*")

_MIN_SHARE: Final = 0.05  # of the wait: smaller gains are not worth a change
_MOSTLY_OVERHEAD: Final = 0.5  # share of a function's time outside its ops
_MIN_EPOCHS: Final = 2  # fewer recorded epochs do not justify a cache
_MOST_CPUS_USED: Final = 0.75  # above this, more parallel calls gain little
# If gains differ by less than this share of the wait, the easier change comes first.
_EQUAL: Final = 0.02
_Kind: TypeAlias = Literal[  # by ease
    "prefetch", "rewrite", "parallel", "vectorise", "cache", "generator", "read_in_parallel"
]
_TEXTS: Final[dict[str, dict[str, str]]] = toml("input_pipeline/fixes.toml")


@dataclass(frozen=True, kw_only=True)
class InputFix:
    """A change that makes a pipeline faster."""

    kind: _Kind
    title: str
    text: str  #: what to do, and under which conditions
    code: str
    high_ps: float  #: most time saved per step
    basis: str  #: the assumptions behind it


def fixes(pipeline: Pipeline, row: int, cpus: int | None) -> tuple[InputFix, ...]:
    """Return fixes for the stage in row `row` of the stage table, the best first.

    `cpus` is the number of CPUs that tf.data uses.
    """
    wait = pipeline.waits.mean_ps
    step = _EQUAL * wait or 1.0

    def rank(fix: InputFix) -> tuple[float, int]:
        return -round(fix.high_ps / step), get_args(_Kind).index(fix.kind)

    found = _Changes(pipeline, row, cpus).all()
    return tuple(sorted((f for f in found if f.high_ps >= _MIN_SHARE * wait), key=rank))


class _Changes:
    def __init__(self, pipeline: Pipeline, row: int, cpus: int | None) -> None:
        self._pipeline = pipeline
        self._row = row
        self._cpus = cpus
        self._stage = pipeline.stages[row]
        self._section = pipeline.section(row)
        self._own_rows = pipeline.sections.get(PROGRAM, [])
        self._busy_ps = pipeline.busy_ps([row])
        self._calls_python = is_positive(self._stage["python_ps"])

    def all(self) -> Iterator[InputFix]:
        op_type = str(self._stage["type"])
        if _MAPS.fullmatch(op_type):
            if self._calls_python:
                yield self._rewritten()
            yield from self._parallel()
            yield from self._vectorised()
        elif op_type.startswith("Generator") and self._calls_python:
            yield self._several("generator")
        elif _FILES.fullmatch(op_type):
            yield self._several("read_in_parallel")
        yield from self._prefetched()
        yield from self._cached()

    # --- the wait that remains -----------------------------------------------------------------

    def _fix(self, kind: _Kind, wait_ps: float, *, variant: str = "", **words: object) -> InputFix:
        """Return a fix, given the shortest wait that can remain after it.

        `variant` is a suffix to `kind` that selects other texts, and `words` fill them in.
        """
        cpus = "as many CPUs as needed" if self._cpus is None else counted(self._cpus, "CPU")
        texts = {
            name: text.strip().format(cpus=cpus, **words)
            for name, text in _TEXTS[kind + variant].items()
        }
        measured_ps = self._pipeline.waits.mean_ps
        saved_ps = min(max(measured_ps - wait_ps, 0.0), measured_ps)
        return InputFix(kind=kind, high_ps=saved_ps, **texts)

    def _wait_beside_section(self, busy_ps: float) -> float:
        """Return the wait per step if the stage had its own section and took `busy_ps` per step."""
        pipeline = self._pipeline
        shared = {self._section, (str(self._stage["stage"]), False)}
        below = [k for k in pipeline.below(self._row) if k != self._row]
        moved = [k for k in below if pipeline.section(k) in shared]
        left = (self._row, *moved)
        own = pipeline.busy_ps([k for k in self._own_rows if k not in left])
        slowest = max(pipeline.slowest_without(left), pipeline.busy_ps(moved), busy_ps)
        return pipeline.wait_if(own, slowest)

    def _wait_in_section(self, busy_ps: float) -> float:
        """Return the wait per step if the stage took `busy_ps` per step in its present section."""
        pipeline = self._pipeline
        section = pipeline.sections[self._section]
        whole = pipeline.busy_ps([k for k in section if k != self._row]) + busy_ps
        if self._section == PROGRAM:
            return pipeline.wait_if(whole, pipeline.slowest_without())
        return pipeline.wait_if(pipeline.own_ps, max(pipeline.slowest_without(section), whole))

    def _calls_at_once(self) -> float:
        """Return the mean number of parallel calls while at least one ran."""
        if not self._stage["is_async"]:
            return 1.0
        work = self._pipeline.work
        mine = work.row == self._row
        took = float((work.end_ps[mine] - work.start_ps[mine]).sum())
        whole = self._pipeline.recorded([self._row]).total_ps
        # Calls that wait for a thread appear to run.
        limits = [self._stage["parallelism"], self._cpus]
        most = min((float(n) for n in limits if is_positive(n)), default=float("inf"))
        return max(1.0, min(took / whole if whole else 1.0, most))

    # --- changes -------------------------------------------------------------------------------

    def _rewritten(self) -> InputFix:
        """Return the fix that replaces serial Python calls with TensorFlow ops."""
        calling = self._pipeline.calling_ps(self._row)
        shared = self._busy_ps - calling + calling / self._cpus if self._cpus else 0.0
        return self._fix("rewrite", self._wait_beside_section(shared))

    def _parallel(self) -> Iterator[InputFix]:
        cpus = self._cpus
        calling = self._pipeline.calling_ps(self._row)
        at_once = self._calls_at_once() if calling else 1.0
        if cpus is not None and at_once > cpus * _MOST_CPUS_USED:
            return
        if is_positive(self._stage["autotune"]):
            return  # tf.data already chooses the parallelism
        # Parallel calls do not speed up passing elements between threads.
        handing_over, calls = self._busy_ps - calling, calling * at_once
        most = max(at_once, float(cpus)) if cpus else None
        wait_ps = self._wait_beside_section(handing_over + calls / most) if most else 0.0
        yield self._fix("parallel", wait_ps, variant="_python" if self._calls_python else "")

    def _vectorised(self) -> Iterator[InputFix]:
        """Yield the fix that calls a function once per batch, if calls have a high overhead."""
        if self._calls_python or not is_positive(self._stage["calls"]):
            return
        stages = [self._pipeline.stages[k] for k in self._pipeline.chain(self._row)]
        sizes = [s["batch_size"] for s in stages if _BATCHES.fullmatch(str(s["type"]))]
        batch = next((int(size) for size in sizes if is_positive(size)), 1)
        took = self._pipeline.spans([self._row]).total_ps * self._calls_at_once()
        overhead = max(0.0, 1 - float(self._stage["op_ps"]) / took) if took else 0.0
        if batch == 1 or overhead < _MOSTLY_OVERHEAD:
            return
        wait_ps = self._wait_in_section(self._busy_ps * (1 - overhead * (1 - 1 / batch)))
        yield self._fix("vectorise", wait_ps, batch=batch, overhead=percent_text(overhead))

    def _several(self, kind: _Kind) -> InputFix:
        """Return the fix that uses several generators or files. At best, it uses all CPUs."""
        wait_ps = self._wait_beside_section(self._busy_ps / self._cpus) if self._cpus else 0.0
        return self._fix(kind, wait_ps, number=self._cpus or 4)

    def _prefetched(self) -> Iterator[InputFix]:
        """Yield the fix that prefetches elements, if the steps' own thread prepares them."""
        pipeline = self._pipeline
        if self._section == PROGRAM:
            outermost = pipeline.chain(self._row)[-1]
            moved_ps = pipeline.busy_ps([k for k in self._own_rows if k != outermost])
            slowest_ps = max(pipeline.slowest_without(), moved_ps)
            yield self._fix("prefetch", pipeline.wait_if(pipeline.busy_ps([outermost]), slowest_ps))

    def _cached(self) -> Iterator[InputFix]:
        """Yield the fix that caches the elements, if each epoch produces the same ones."""
        pipeline = self._pipeline
        chain = [(k, str(pipeline.stages[k]["type"])) for k in pipeline.chain(self._row)]
        fans = [k for k, op_type in chain if _FANS_OUT.fullmatch(op_type)]
        at = fans[-1] if fans else self._row
        stage, below = pipeline.stages[at], pipeline.below(at)
        stages = [pipeline.stages[k] for k in below]
        epochs = int(stage["iterators"])
        is_cached = any(_CACHE.fullmatch(op_type) for _, op_type in chain)
        is_random = any(_RANDOM.search(str(s["ops"])) for s in stages if isinstance(s["ops"], str))
        if is_cached or is_random or epochs < _MIN_EPOCHS:
            return
        own = pipeline.busy_ps([k for k in self._own_rows if k not in below])
        wait_ps = pipeline.wait_if(own, pipeline.slowest_without(below))
        provisos, size = "", ""
        if any(_SHUFFLE.fullmatch(str(s["type"])) for s in stages):
            provisos = " Move the shuffle after the cache; otherwise each epoch has the same order."
        if any(is_positive(s["python_ps"]) for s in stages):
            provisos += (
                " Do this only if the Python function always returns the same value for an element."
            )
        if is_positive(stage["element_bytes"]):
            each = int(stage["element_bytes"]) * int(stage["elements"]) // epochs
            size = f", about {size_text(each)}"
        yield self._fix("cache", wait_ps, provisos=provisos, size=size)

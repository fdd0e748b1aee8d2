"""What helps against a slow stage, and what a step would gain by it.

The bounds come from the pipeline's sections (`throughput`) with the stage's work put at what it
would take after the change: the high bound if all goes well, the low one if what is not known of
the program goes badly. Neither is above what was measured as wait.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.format import counted, percent_text, size_text
from traceanalyzer.input_pipeline.cells import is_positive
from traceanalyzer.input_pipeline.records import Cure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.input_pipeline.throughput import Pipeline

__all__ = ["Setting", "cures"]

_MAPS: Final = re.compile(r"Map|MapAndBatch\w*|ParallelMap\w*")
_FILES: Final = re.compile(r"TFRecord\w*|TextLine\w*|FixedLengthRecord\w*|CSV\w*")
_BATCHES: Final = re.compile(r"\w*Batch\w*")
# Stages that begin their inputs anew for each of their elements, so that iterators below them count
# files or the like, no epochs.
_FANS_OUT: Final = re.compile(r"\w*Interleave\w*|FlatMap\w*")
_CACHE: Final = re.compile(r"\w*Cache\w*")
_SHUFFLE: Final = re.compile(r"Shuffle\w*")
_RANDOM: Final = re.compile(r"\bRandom|Random\w*|Multinomial|StatelessTruncatedNormal\w*")

_WORTH: Final = 0.05  # of the wait: below this a change is not named
_MOSTLY_OVERHEAD: Final = 0.5  # of a function's time outside of its ops
_NUMBER_OF_EPOCHS: Final = 2  # that must be seen before a cache is advised
# When bounds are this close, in shares of the wait, the change that asks less is named first.
_ALIKE: Final = 0.02
_BY_EASE: Final = ("prefetch", "parallel", "vectorise", "cache", "generator", "read_in_parallel")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What else decides what a change is worth.

    Attributes:
        cpus: CPUs that tf.data reckons with, or None where not told.
        has_gpu: Whether the steps compute on a GPU, which leaves the CPUs to the pipeline.
    """

    cpus: int | None
    has_gpu: bool


def cures(pipeline: Pipeline, row: int, setting: Setting) -> tuple[Cure, ...]:
    """Return what would help against the stage that bounds the rate, the best first."""
    found = list(_Changes(pipeline, row, setting).all())
    wait = pipeline.wait_ps
    worth = [c for c in found if c.high_ps >= _WORTH * wait]

    def rank(cure: Cure) -> tuple[float, float, int]:
        step = _ALIKE * wait or 1.0
        return (
            -round(cure.high_ps / step),
            -round(cure.low_ps / step),
            _BY_EASE.index(cure.kind),
        )

    return tuple(sorted(worth, key=rank))


class _Changes:
    """The changes that fit one stage."""

    def __init__(self, pipeline: Pipeline, row: int, setting: Setting) -> None:
        self._pipeline = pipeline
        self._row = row
        self._setting = setting
        self._stage = pipeline.stages[row]
        self._type = str(self._stage["type"])
        self._calls_python = is_positive(self._stage["python_ps"])

    def all(self) -> Iterator[Cure]:
        if _MAPS.fullmatch(self._type):
            yield from self._parallel()
            yield from self._vectorised()
        elif self._type.startswith("Generator") and self._calls_python:
            yield from self._several_generators()
        elif _FILES.fullmatch(self._type):
            yield from self._several_files()
        yield from self._prefetched()
        yield from self._cached()

    # --- bounds --------------------------------------------------------------------------------

    def _bounds(self, best_ps: float, worst_ps: float) -> tuple[float, float]:
        """Return the gain, low and high, from the wait that is left at best and at worst."""
        pipeline = self._pipeline
        wait = pipeline.wait_ps
        # What of the wait the sections do not account for, no change to them is sure to remove.
        accounted = min(wait, pipeline.wait_if(pipeline.own_ps, pipeline.slowest_ps))
        high = min(max(wait - best_ps, 0.0), wait)
        return min(max(accounted - worst_ps, 0.0), high), high

    def _apart(self, busy_ps: float) -> float:
        """Return the wait if the stage worked beside its section and took so long per step."""
        pipeline = self._pipeline
        below = [k for k in pipeline.below(self._row) if k != self._row]
        moved = [k for k in below if self._shares_section(k)]
        left = (self._row, *moved)
        own = pipeline.busy_ps([k for k in pipeline.sections.get(("", False), []) if k not in left])
        slowest = max(pipeline.slowest_without(left), pipeline.busy_ps(moved), busy_ps)
        return pipeline.wait_if(own, slowest)

    def _shares_section(self, row: int) -> bool:
        pipeline = self._pipeline
        section = pipeline.section(row)
        return section in {pipeline.section(self._row), (str(self._stage["stage"]), False)}

    def _contended(self, work_ps: float) -> float:
        """Return the least wait where the steps themselves need every CPU: work is only shared."""
        if self._setting.has_gpu:
            return 0.0
        return work_ps / (self._setting.cpus or 2)

    # --- changes -------------------------------------------------------------------------------

    def _parallel(self) -> Iterator[Cure]:
        """Several calls at once."""
        cpus = self._setting.cpus
        calling = self._pipeline.calling_ps(self._row)
        at_once = self._at_once(calling)
        # Handing elements over from thread to thread is no faster with more calls at once.
        handing_over = self._pipeline.busy_ps([self._row]) - calling
        if cpus is not None and at_once > cpus * 0.75:
            return
        if is_positive(self._stage["autotune"]):
            return  # tf.data chooses already
        most = max(at_once, float(cpus)) if cpus else None
        least = 1.0 if self._calls_python else max(at_once, (cpus or 2) / 2)
        calls = calling * at_once
        best = self._apart(handing_over + calls / most) if most else 0.0
        worst = max(self._apart(handing_over + calls / least), self._contended(calls))
        low, high = self._bounds(best, worst)
        basis = (
            f"one call after the other at worst, as Python holds its lock; on {_cpus(cpus)} at best"
            if self._calls_python
            else f"its calls on half of the CPUs at worst, on {_cpus(cpus)} at best"
        )
        yield Cure(
            kind="parallel",
            text=(
                "Let several calls of the function run at once"
                + (
                    "; Python runs its own code one at a time, so this helps as far as the function"
                    " waits, or computes in libraries that release Python's lock."
                    if self._calls_python
                    else "."
                )
            ),
            code="dataset = dataset.map(fn, num_parallel_calls=tf.data.AUTOTUNE)",
            low_ps=low,
            high_ps=high,
            basis=basis,
        )

    def _at_once(self, busy_ps: float) -> float:
        """Return how many calls ran at once, on average, while any did."""
        if not self._stage["is_async"]:
            return 1.0
        mine = self._pipeline.work.row == self._row
        took = float((self._pipeline.work.end_ps[mine] - self._pipeline.work.start_ps[mine]).sum())
        whole = self._pipeline.recorded([self._row]).total_ps
        # Calls that wait for a thread count as running: never more than can run at once.
        limits = [self._stage["parallelism"], self._setting.cpus]
        most = min((float(n) for n in limits if is_positive(n)), default=float("inf"))
        return max(1.0, min(took / whole if whole else 1.0, most)) if busy_ps else 1.0

    def _vectorised(self) -> Iterator[Cure]:
        """One call for a whole batch, where the calls cost more than what they compute."""
        if self._calls_python or not is_positive(self._stage["calls"]):
            return
        batch = self._batch()
        took = self._pipeline.spans([self._row]).total_ps * self._at_once(1.0)
        overhead = max(0.0, 1 - float(self._stage["op_ps"]) / took) if took else 0.0
        if batch is None or batch < 2 or overhead < _MOSTLY_OVERHEAD:  # noqa: PLR2004 - a batch of one
            return
        busy = self._pipeline.busy_ps([self._row])
        saved = busy * overhead * (1 - 1 / batch)
        low, high = self._bounds(self._with_work(busy - saved), self._with_work(busy - saved / 2))
        yield Cure(
            kind="vectorise",
            text=(
                f"Batch first, and let the function work on {batch} elements at a time: "
                f"{percent_text(overhead)} of its time is the calls, not what they compute."
            ),
            code=f"dataset = dataset.batch({batch}).map(fn_of_a_batch)",
            low_ps=low,
            high_ps=high,
            basis="half of what the calls cost beside their ops at worst, all of it at best",
        )

    def _with_work(self, busy_ps: float) -> float:
        """Return the wait if the stage took so long per step, where it is."""
        pipeline = self._pipeline
        section = pipeline.section(self._row)
        rest = pipeline.busy_ps([k for k in pipeline.sections[section] if k != self._row])
        if section == ("", False):
            return pipeline.wait_if(rest + busy_ps, pipeline.slowest_ps)
        others = pipeline.slowest_without(pipeline.sections[section])
        return pipeline.wait_if(pipeline.own_ps, max(others, rest + busy_ps))

    def _batch(self) -> int | None:
        for k in self._pipeline.chain(self._row):
            stage = self._pipeline.stages[k]
            if _BATCHES.fullmatch(str(stage["type"])) and is_positive(stage["batch_size"]):
                return int(stage["batch_size"])
        return None

    def _several_generators(self) -> Iterator[Cure]:
        cpus = self._setting.cpus
        number = cpus or 4
        yield self._several(
            kind="generator",
            text=(
                "A generator gives one element after the other. Let several give each a part of "
                "them, or replace it by ops of TensorFlow (`from_tensor_slices`, `TFRecordDataset`)"
                ", which need no Python."
            ),
            code=(
                f"dataset = tf.data.Dataset.range({number}).interleave(\n"
                "    lambda part: tf.data.Dataset.from_generator(\n"
                "        generator_of_part, args=(part,), output_signature=signature),\n"
                f"    cycle_length={number}, num_parallel_calls={number})"
            ),
            worst_basis="one generator after the other at worst, as Python holds its lock",
        )

    def _several_files(self) -> Iterator[Cure]:
        yield self._several(
            kind="read_in_parallel",
            text="Read several files at once.",
            code=(
                "dataset = tf.data.Dataset.from_tensor_slices(files).interleave(\n"
                "    tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)"
            ),
            worst_basis="no faster at worst, if the disk bounds it",
        )

    def _several(self, *, kind: str, text: str, code: str, worst_basis: str) -> Cure:
        cpus = self._setting.cpus
        busy = self._pipeline.busy_ps([self._row])
        best = self._apart(busy / cpus) if cpus else 0.0
        low, high = self._bounds(best, self._apart(busy))
        return Cure(
            kind="generator" if kind == "generator" else "read_in_parallel",
            text=text,
            code=code,
            low_ps=low,
            high_ps=high,
            basis=f"{worst_basis}; {_cpus(cpus)} at once at best",
        )

    def _prefetched(self) -> Iterator[Cure]:
        """Make elements ahead, where each step makes its own now."""
        pipeline = self._pipeline
        if pipeline.section(self._row) != ("", False):
            return
        outermost = pipeline.chain(self._row)[-1]
        own = [k for k in pipeline.sections[("", False)] if k != outermost]
        left = pipeline.busy_ps([outermost])
        moved = pipeline.busy_ps(own)
        slowest = max(pipeline.slowest_ps, moved)
        best = pipeline.wait_if(left, slowest)
        low, high = self._bounds(best, max(best, self._contended(moved)))
        yield Cure(
            kind="prefetch",
            text="Make the next elements while the step computes: a prefetch at the end.",
            code="dataset = dataset.prefetch(tf.data.AUTOTUNE)",
            low_ps=low,
            high_ps=high,
            basis=(
                "all that fits beside the step's own time at best"
                if self._setting.has_gpu
                else "steps that need every CPU at worst; all that fits beside the step at best"
            ),
        )

    def _cached(self) -> Iterator[Cure]:
        """Keep what is made, where the same is made again in each epoch."""
        pipeline = self._pipeline
        chain = pipeline.chain(self._row)
        types = [str(pipeline.stages[k]["type"]) for k in chain]
        if any(_CACHE.fullmatch(t) for t in types):
            return
        fans = [k for k, t in zip(chain, types, strict=True) if _FANS_OUT.fullmatch(t)]
        at = fans[-1] if fans else self._row
        epochs = int(pipeline.stages[at]["iterators"])
        below = pipeline.below(at)
        stages = [pipeline.stages[k] for k in below]
        if epochs < _NUMBER_OF_EPOCHS or any(_is_random(s["ops"]) for s in stages):
            return
        calls_python = any(is_positive(s["python_ps"]) for s in stages)
        own = pipeline.busy_ps(
            [k for k in pipeline.sections.get(("", False), []) if k not in below]
        )
        best = pipeline.wait_if(own, pipeline.slowest_without(below))
        low, high = self._bounds(best, best)
        low = 0.0 if calls_python else low * (epochs - 1) / epochs
        shuffled = any(_SHUFFLE.fullmatch(str(s["type"])) for s in stages)
        yield Cure(
            kind="cache",
            text=(
                "Keep what this stage makes: the same is made again in each epoch."
                + (
                    " Move the shuffle behind it, or each epoch has the same order."
                    if shuffled
                    else ""
                )
                + (
                    " Only if the Python function gives the same for the same element each time."
                    if calls_python
                    else ""
                )
                + self._cache_size(at, epochs)
            ),
            code="dataset = dataset.cache()  # right after the stage that is slow",
            low_ps=low,
            high_ps=high,
            basis=(
                f"the first of {counted(epochs, 'epoch')} gains nothing"
                + (", and none if Python gives something else each time" if calls_python else "")
                + "; from the second on at best"
            ),
        )

    def _cache_size(self, at: int, epochs: int) -> str:
        stage = self._pipeline.stages[at]
        size, elements = stage["element_bytes"], int(stage["elements"])
        if not is_positive(size):
            return " It takes memory for all elements of an epoch."
        whole = int(size) * elements // epochs
        return f" It takes memory for all elements of an epoch: some {size_text(whole)}."


def _cpus(cpus: int | None) -> str:
    return "as many CPUs as it takes" if cpus is None else counted(cpus, "CPU")


def _is_random(ops: object) -> bool:
    return isinstance(ops, str) and _RANDOM.search(ops) is not None

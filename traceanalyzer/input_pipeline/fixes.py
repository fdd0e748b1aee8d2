"""What helps against a slow stage, and what a step gains by it.

The bounds come from the pipeline's sections (`throughput`), with the work of the stage replaced by
its work after the change: the high bound if all goes well, the low one if unknown properties of the
program turn out badly. Neither exceeds the measured wait.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from traceanalyzer.format import counted, percent_text, size_text
from traceanalyzer.input_pipeline.throughput import PROGRAM, is_positive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.input_pipeline.throughput import Pipeline

_MAPS: Final = re.compile(r"Map|MapAndBatch\w*|ParallelMap\w*")
_FILES: Final = re.compile(r"TFRecord\w*|TextLine\w*|FixedLengthRecord\w*|CSV\w*")
_BATCHES: Final = re.compile(r"\w*Batch\w*")
# Stages that restart their inputs for each of their elements, so that iterators below them count
# files or the like, not epochs.
_FANS_OUT: Final = re.compile(r"\w*Interleave\w*|FlatMap\w*")
_CACHE: Final = re.compile(r"\w*Cache\w*")
_SHUFFLE: Final = re.compile(r"Shuffle\w*")
_RANDOM: Final = re.compile(r"\bRandom|Random\w*|Multinomial|StatelessTruncatedNormal\w*")

_MIN_SHARE: Final = 0.05  # of the wait: smaller gains are not worth a change
_MOSTLY_OVERHEAD: Final = 0.5  # of a function's time outside of its ops
_MIN_EPOCHS: Final = 2  # seen before a cache is advised
_MOST_CPUS_USED: Final = 0.75  # beyond that, more calls at once gain little
# If bounds are this close, in shares of the wait, the easier change comes first.
_EQUAL: Final = 0.02
_Kind: TypeAlias = Literal[  # by ease
    "prefetch", "rewrite", "parallel", "vectorise", "cache", "generator", "read_in_parallel"
]
_PYTHON_LOCK: Final = "as Python holds its lock"


@dataclass(frozen=True, kw_only=True)
class InputFix:
    """A change to a pipeline."""

    kind: _Kind
    text: str  #: what to do, and what the program must allow for it
    code: str
    low_ps: float  #: gain per step, at least
    high_ps: float  #: at most; never more than the wait
    basis: str  #: what the bounds assume


def fixes(pipeline: Pipeline, row: int, cpus: int | None, *, has_gpu: bool) -> tuple[InputFix, ...]:
    """Return what helps against the stage that bounds the rate, the best first.

    Args:
        cpus: That tf.data plans with.
        has_gpu: Whether the steps compute on a GPU, which leaves the CPUs to the pipeline.
    """
    wait = pipeline.wait_ps
    step = _EQUAL * wait or 1.0

    def rank(fix: InputFix) -> tuple[float, float, int]:
        ease = get_args(_Kind).index(fix.kind)
        return (-round(fix.high_ps / step), -round(fix.low_ps / step), ease)

    found = _Changes(pipeline, row, cpus, has_gpu=has_gpu).all()
    return tuple(sorted((f for f in found if f.high_ps >= _MIN_SHARE * wait), key=rank))


class _Changes:
    """The changes that fit one stage."""

    def __init__(self, pipeline: Pipeline, row: int, cpus: int | None, *, has_gpu: bool) -> None:
        self._pipeline = pipeline
        self._row = row
        self._cpus = cpus
        self._all_cpus = "as many CPUs as it needs" if cpus is None else counted(cpus, "CPU")
        self._has_gpu = has_gpu
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
            yield self._several_generators()
        elif _FILES.fullmatch(op_type):
            yield self._several_files()
        yield from self._prefetched()
        yield from self._cached()

    # --- bounds --------------------------------------------------------------------------------

    def _fix(  # noqa: PLR0913 - the fields of a fix
        self,
        kind: _Kind,
        *,
        best_ps: float,
        worst_ps: float,
        text: str,
        code: str,
        basis: str,
        surely: float = 1.0,
    ) -> InputFix:
        """Return a fix, given the wait that remains at best and at worst.

        Args:
            surely: The share of the least gain that is sure.
        """
        pipeline = self._pipeline
        wait = pipeline.wait_ps
        # If the sections do not account for some of the wait, no change to them is sure to help.
        accounted = min(wait, pipeline.wait_if(pipeline.own_ps, pipeline.slowest_ps))
        high = min(max(wait - best_ps, 0.0), wait)
        low = min(max(accounted - worst_ps, 0.0), high) * surely
        return InputFix(kind=kind, text=text, code=code, low_ps=low, high_ps=high, basis=basis)

    def _wait_beside_section(self, busy_ps: float) -> float:
        """Return the wait if the stage worked so long per step, in a section of its own."""
        pipeline = self._pipeline
        shared = {self._section, (str(self._stage["stage"]), False)}
        below = [k for k in pipeline.below(self._row) if k != self._row]
        moved = [k for k in below if pipeline.section(k) in shared]
        left = (self._row, *moved)
        own = pipeline.busy_ps([k for k in self._own_rows if k not in left])
        slowest = max(pipeline.slowest_without(left), pipeline.busy_ps(moved), busy_ps)
        return pipeline.wait_if(own, slowest)

    def _wait_in_section(self, busy_ps: float) -> float:
        """Return the wait if the stage worked so long per step, where it is."""
        pipeline = self._pipeline
        section = pipeline.sections[self._section]
        whole = pipeline.busy_ps([k for k in section if k != self._row]) + busy_ps
        if self._section == PROGRAM:
            return pipeline.wait_if(whole, pipeline.slowest_ps)
        return pipeline.wait_if(pipeline.own_ps, max(pipeline.slowest_without(section), whole))

    def _wait_if_shared(self) -> float:
        """Return the wait if all CPUs shared the work of the stage."""
        return self._wait_beside_section(self._busy_ps / self._cpus) if self._cpus else 0.0

    def _contended(self, work_ps: float) -> float:
        """Return the least wait if the steps themselves need every CPU: work is only shared."""
        return 0.0 if self._has_gpu else work_ps / (self._cpus or 2)

    def _calls_at_once(self) -> float:
        """Return how many calls ran at once, on average, while any did."""
        if not self._stage["is_async"]:
            return 1.0
        work = self._pipeline.work
        mine = work.row == self._row
        took = float((work.end_ps[mine] - work.start_ps[mine]).sum())
        whole = self._pipeline.recorded([self._row]).total_ps
        # Calls that wait for a thread count as running: never more than can run at once.
        limits = [self._stage["parallelism"], self._cpus]
        most = min((float(n) for n in limits if is_positive(n)), default=float("inf"))
        return max(1.0, min(took / whole if whole else 1.0, most))

    # --- changes -------------------------------------------------------------------------------

    def _rewritten(self) -> InputFix:
        """TensorFlow ops instead of Python, which runs one call at a time."""
        calling = self._pipeline.calling_ps(self._row)
        rest = self._busy_ps - calling
        best = rest + calling / self._cpus if self._cpus else 0.0
        return self._fix(
            "rewrite",
            best_ps=self._wait_beside_section(best),
            worst_ps=self._pipeline.wait_ps,
            text=(
                "Write the function with TensorFlow ops: Python runs its own code one call at a "
                "time, whatever `num_parallel_calls` is."
            ),
            code="dataset = dataset.map(fn_of_tensorflow_ops, num_parallel_calls=tf.data.AUTOTUNE)",
            basis=f"no faster at worst; its calls on {self._all_cpus} at best",
        )

    def _parallel(self) -> Iterator[InputFix]:
        """Several calls at once."""
        cpus = self._cpus
        calling = self._pipeline.calling_ps(self._row)
        at_once = self._calls_at_once() if calling else 1.0
        if cpus is not None and at_once > cpus * _MOST_CPUS_USED:
            return
        if is_positive(self._stage["autotune"]):
            return  # tf.data chooses already
        # Handing elements over from thread to thread is no faster with more calls at once.
        handing_over = self._busy_ps - calling
        most = max(at_once, float(cpus)) if cpus else None
        least = 1.0 if self._calls_python else max(at_once, (cpus or 2) / 2)
        calls = calling * at_once
        text = "Let several calls of the function run at once."
        worst = "its calls on half of the CPUs at worst, on"
        if self._calls_python:
            text = (
                "If the Python function waits, or computes in libraries that release Python's "
                "lock, let several calls of it run at once."
            )
            worst = f"one call after the other at worst, {_PYTHON_LOCK}; on"
        yield self._fix(
            "parallel",
            best_ps=self._wait_beside_section(handing_over + calls / most) if most else 0.0,
            worst_ps=max(
                self._wait_beside_section(handing_over + calls / least), self._contended(calls)
            ),
            text=text,
            code="dataset = dataset.map(fn, num_parallel_calls=tf.data.AUTOTUNE)",
            basis=f"{worst} {self._all_cpus} at best",
        )

    def _vectorised(self) -> Iterator[InputFix]:
        """One call for a whole batch, if the calls cost more than what they compute."""
        if self._calls_python or not is_positive(self._stage["calls"]):
            return
        stages = [self._pipeline.stages[k] for k in self._pipeline.chain(self._row)]
        sizes = [s["batch_size"] for s in stages if _BATCHES.fullmatch(str(s["type"]))]
        batch = next((int(size) for size in sizes if is_positive(size)), 1)
        took = self._pipeline.spans([self._row]).total_ps * self._calls_at_once()
        overhead = max(0.0, 1 - float(self._stage["op_ps"]) / took) if took else 0.0
        if batch == 1 or overhead < _MOSTLY_OVERHEAD:
            return
        saved = self._busy_ps * overhead * (1 - 1 / batch)
        yield self._fix(
            "vectorise",
            best_ps=self._wait_in_section(self._busy_ps - saved),
            worst_ps=self._wait_in_section(self._busy_ps - saved / 2),
            text=(
                f"Batch first, and let the function work on {batch} elements at a time: "
                f"{percent_text(overhead)} of its time is the calls, not what they compute."
            ),
            code=f"dataset = dataset.batch({batch}).map(fn_of_a_batch)",
            basis="half of the calls' overhead at worst, all of it at best",
        )

    def _several_generators(self) -> InputFix:
        number = self._cpus or 4
        return self._fix(
            "generator",
            best_ps=self._wait_if_shared(),
            worst_ps=self._wait_beside_section(self._busy_ps),
            text=(
                "A generator yields one element after the other. Let several generators yield a "
                "part each, or replace it by TensorFlow ops (`from_tensor_slices`, "
                "`TFRecordDataset`), which need no Python."
            ),
            code=(
                f"dataset = tf.data.Dataset.range({number}).interleave(\n"
                "    lambda part: tf.data.Dataset.from_generator(\n"
                "        generator_of_part, args=(part,), output_signature=signature),\n"
                f"    cycle_length={number}, num_parallel_calls={number})"
            ),
            basis=(
                f"one generator after the other at worst, {_PYTHON_LOCK}; {self._all_cpus} at once "
                "at best"
            ),
        )

    def _several_files(self) -> InputFix:
        return self._fix(
            "read_in_parallel",
            best_ps=self._wait_if_shared(),
            worst_ps=self._wait_beside_section(self._busy_ps),
            text="Read several files at once.",
            code=(
                "dataset = tf.data.Dataset.from_tensor_slices(files).interleave(\n"
                "    tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE)"
            ),
            basis=f"no faster at worst, if the disk limits it; {self._all_cpus} at once at best",
        )

    def _prefetched(self) -> Iterator[InputFix]:
        """Prepare elements in advance, if each step makes its own now."""
        pipeline = self._pipeline
        if self._section != PROGRAM:
            return
        outermost = pipeline.chain(self._row)[-1]
        moved = pipeline.busy_ps([k for k in self._own_rows if k != outermost])
        best = pipeline.wait_if(pipeline.busy_ps([outermost]), max(pipeline.slowest_ps, moved))
        basis = "steps that need every CPU at worst; all that fits beside the step at best"
        if self._has_gpu:
            basis = "all that fits beside the step's own time at best"
        yield self._fix(
            "prefetch",
            best_ps=best,
            worst_ps=max(best, self._contended(moved)),
            text="Prepare the next elements while the step computes: add a prefetch at the end.",
            code="dataset = dataset.prefetch(tf.data.AUTOTUNE)",
            basis=basis,
        )

    def _cached(self) -> Iterator[InputFix]:
        """Keep the elements, if each epoch makes the same again."""
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
        best = pipeline.wait_if(own, pipeline.slowest_without(below))
        text = "Cache the elements of this stage: each epoch makes the same again."
        basis = f"the first of {counted(epochs, 'epoch')} gains nothing"
        if any(_SHUFFLE.fullmatch(str(s["type"])) for s in stages):
            text += " Move the shuffle after it, or each epoch has the same order."
        calls_python = any(is_positive(s["python_ps"]) for s in stages)
        if calls_python:
            text += " Only if the Python function returns the same for the same element each time."
            basis += ", and none if Python returns something else each time"
        whole = ""
        if is_positive(stage["element_bytes"]):
            each = int(stage["element_bytes"]) * int(stage["elements"]) // epochs
            whole = f", about {size_text(each)}"
        yield self._fix(
            "cache",
            best_ps=best,
            worst_ps=best,
            text=f"{text} It needs memory for all elements of an epoch{whole}.",
            code="dataset = dataset.cache()  # right after the slow stage",
            basis=f"{basis}; from the second on at best",
            surely=0.0 if calls_python else (epochs - 1) / epochs,
        )

"""Hand-written hosts with steps that wait for input, for tests of verdicts and fixes."""

from collections.abc import Sequence
from typing import Any

from tests.tables.reading import HOST, tables_of
from tests.traces import Event, Value, event, executor, host, iterator, line, op, step, thread, us
from traceanalyzer.input_pipeline.verdict import HostInput, host_input

MS = 10**9
STEPS = 10
_CALL = "InstantiatedCapturedFunction::RunAsync"


def asked(at: Any, *inside: Event) -> Event:  # noqa: ANN401
    """The op in which the program waits for an element."""
    return event("IteratorGetNextOp::DoCompute", at)(*inside)


def judged(*lines: Any) -> HostInput | None:  # noqa: ANN401
    """The verdict for a host with these threads."""
    tables = tables_of(host(*lines))
    return host_input(HOST, tables.stages, tables.pipelines, tables.steps)


def found(*lines: Any) -> HostInput:  # noqa: ANN401
    """The same, where there is a pipeline."""
    use = judged(*lines)
    assert use is not None
    return use


def steps(period: int, wait: int, *inside: Sequence[Event], count: int = STEPS) -> Any:  # noqa: ANN401
    """Steps of `period` µs that wait for the first `wait` µs; `inside` has a row for each."""
    return line("python")(
        step(k, us(k * period, period))(
            asked(us(k * period, wait), *(inside[k] if inside else [_root(k * period, wait)]))
        )
        for k in range(count)
    )


def _root(at: int, wait: int, *inside: Event) -> Event:
    return iterator("Root", us(at, wait), id=1, cpu_budget=4)(*inside)


def on_own_thread(
    period: int, wait: int, stage: str = "Map", epochs: int = 1, **settings: Value
) -> Any:  # noqa: ANN401
    """Steps that request their input from one stage below the pipeline's end, all of the wait."""

    def below(k: int) -> Event:
        stats: dict[str, Value] = {"id": 2 + k * epochs // STEPS, "parent_id": 1, **settings}
        return iterator(f"Root::{stage}", us(k * period, wait), **stats)

    return steps(period, wait, *([_root(k * period, wait, below(k))] for k in range(STEPS)))


def made_ahead(  # noqa: PLR0913 - what the stage is set to
    period: int,
    wait: int,
    busy: int,
    *,
    calls: int = 1,
    python: bool = False,
    parallelism: int = 1,
    autotune: str = "false",
    epochs: int = 1,
    op_time: int | None = None,
    batch: int | None = None,
) -> Sequence[Any]:
    """Steps behind a parallel map whose function takes `busy` µs a step, in `calls` calls."""
    kind = "MapAndBatch" if batch else "ParallelMapV2"
    settings: dict[str, Any] = {"parallelism": parallelism, "autotune": autotune}
    if batch:
        settings["batch_size"] = batch
    each = busy // calls
    program = on_own_thread(period, wait, kind, epochs, **settings)
    # The input of a step is made while the previous step runs, up to the end of the wait.
    begins = [k * period + wait - busy + c * each for k in range(STEPS + 1) for c in range(calls)]
    late = -min(begins)
    runner = thread("tf_data_iterator_resource", 1, at_ns=-1000 * late)(
        (
            iterator(f"Root::{kind}::Range", us(at + late - 0.5, 0.1), id=50, parent_id=2),
            event(_CALL, us(at + late, 0.1), id=-100 - n),
        )
        for n, at in enumerate(begins)
    )
    kernel = "PyFunc" if python else "DecodeJpeg"
    inner = each if op_time is None else op_time
    pool = thread("tf_data_private_threadpool", 2, at_ns=-1000 * late)(
        executor(us(at + late, each), step=-100 - n)(op("f", kernel, us(at + late, inner)))
        for n, at in enumerate(begins)
    )
    return program, runner, pool


def from_source(period: int, wait: int, busy: int, source: str, *, python: bool = False) -> Any:  # noqa: ANN401
    """Steps behind a prefetch of a source that works `busy` µs a step; they wait `wait` µs."""
    program = on_own_thread(period, wait, "Prefetch")
    begins = [k * period + wait - busy for k in range(STEPS + 1)]
    late = -min(begins)
    call = "InstantiatedCapturedFunction::RunWithBorrowedArgs"
    producer = thread("tf_data_iterator_resource", 1, at_ns=-1000 * late)(
        iterator(f"Root::Prefetch::{source}", us(at + late, busy), id=3, parent_id=2)(
            event(call, us(at + late, busy), id=-100 - n)
        )
        for n, at in enumerate(begins)
    )
    kernel = "PyFunc" if python else "ReadFile"
    pool = thread("tf_Compute", 2, at_ns=-1000 * late)(
        executor(us(at + late, busy), step=-100 - n)(op("f", kernel, us(at + late, busy)))
        for n, at in enumerate(begins)
    )
    return program, producer, pool

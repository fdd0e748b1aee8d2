"""The stages of input pipelines, and the times behind them."""

from typing import Any

from tests.tables.reading import HOST, rows, tables_of
from tests.traces import Event, event, executor, host, iterator, line, op, ref, thread, us

US = 10**6


def get_next(at: Any, *inside: Event, **stats: Any) -> Event:  # noqa: ANN401
    """The op that hands an element over."""
    return event("IteratorGetNextOp::DoCompute", at, iter_num=0, stats=stats)(*inside)


def stage(path: str, at: Any, /, *inside: Event, id: int, **stats: Any) -> Event:  # noqa: A002, ANN401
    """A request to a stage of the iterator `id`."""
    return iterator(path, at, id=id, **stats)(*inside)


def work(tables: Any) -> list[tuple[str, int, int]]:  # noqa: ANN401
    """When which stage was at work, in microseconds."""
    names = tables.stages["stage"].tolist()
    spans = tables.pipelines.work
    found = zip(spans.row.tolist(), spans.start_ps.tolist(), spans.end_ps.tolist(), strict=True)
    return sorted((names[r], a // US, b // US) for r, a, b in found)


def test_on_one_thread_a_stage_works_outside_of_its_requests_to_its_input() -> None:
    tables = tables_of(
        host(
            line("python")(
                get_next(
                    us(0, 100),
                    stage(
                        "Root",
                        us(5, 90),
                        stage(
                            "Root::Batch",
                            us(10, 80),
                            stage("Root::Batch::Map", us(20, 30), id=3, parent_id=2),
                            stage("Root::Batch::Map", us(60, 10), id=3, parent_id=2),
                            id=2,
                            parent_id=1,
                            batch_size=2,
                        ),
                        id=1,
                        cpu_budget=8,
                    ),
                    element_size=128,
                )
            )
        )
    )
    columns = ("stage", "parent", "type", "elements", "total_ps", "self_ps", "input_ps", "first_ps")
    assert rows(tables.stages, *columns) == [
        ("Root", None, "Root", 1, 90 * US, 10 * US, 80 * US, 90 * US),
        ("Root::Batch", "Root", "Batch", 1, 80 * US, 40 * US, 40 * US, 80 * US),
        ("Root::Batch::Map", "Root::Batch", "Map", 2, 40 * US, 40 * US, 0, 30 * US),
    ]
    settings = ("host", "pipeline", "batch_size", "cpu_budget", "element_bytes", "is_async")
    assert rows(tables.stages, *settings) == [
        (HOST, 0, None, 8, 128, False),
        (HOST, 0, 2, None, None, False),
        (HOST, 0, None, None, None, False),
    ]
    assert work(tables) == [
        ("Root", 5, 10),
        ("Root", 90, 95),
        ("Root::Batch", 10, 20),
        ("Root::Batch", 50, 60),
        ("Root::Batch", 70, 90),
        ("Root::Batch::Map", 20, 50),
        ("Root::Batch::Map", 60, 70),
    ]
    requested = tables.pipelines.requests
    assert (requested.row.tolist(), requested.start_ps.tolist(), requested.end_ps.tolist()) == (
        [0],
        [0],
        [100 * US],
    )
    assert tables.pipelines.is_first.tolist() == [True]


def test_of_a_stage_that_makes_elements_ahead_the_function_is_its_work() -> None:
    call = "InstantiatedCapturedFunction::RunAsync"
    tables = tables_of(
        host(
            line("python")(
                stage(
                    "Root",
                    us(0, 50),
                    stage("Root::ParallelMapV2", us(1, 48), id=2, parent_id=1, parallelism=2),
                    id=1,
                )
            ),
            thread("tf_data_iterator_resource", 1)(
                stage("Root::ParallelMapV2::Range", us(2, 1), id=3, parent_id=2),
                event(call, us(4, 1), id=-11),
                stage("Root::ParallelMapV2::Range", us(6, 1), id=3, parent_id=2),
                event(call, us(8, 1), id=-12),
            ),
            thread("tf_data_private_threadpool", 2)(
                executor(us(10, 20), step=-11)(op("PyFunc", "PyFunc", us(11, 15))),
                executor(us(32, 8), step=-12)(op("mul", "Mul", us(33, 6))),
            ),
        )
    )
    columns = ("stage", "is_async", "parallelism", "calls", "call_ps", "op_ps", "python_ps", "ops")
    assert rows(tables.stages, *columns) == [
        ("Root", False, None, 0, None, None, None, None),
        ("Root::ParallelMapV2", True, 2, 2, 58 * US, 21 * US, 15 * US, "PyFunc, Mul"),
        ("Root::ParallelMapV2::Range", False, None, 0, None, None, None, None),
    ]
    assert work(tables) == [
        ("Root", 0, 1),
        ("Root", 49, 50),
        ("Root::ParallelMapV2", 4, 30),
        ("Root::ParallelMapV2", 8, 40),
        ("Root::ParallelMapV2::Range", 2, 3),
        ("Root::ParallelMapV2::Range", 6, 7),
    ]


def test_an_index_counts_new_beginnings_but_of_a_zip_tells_inputs_apart() -> None:
    tables = tables_of(
        host(
            line("python")(
                stage(
                    "Root",
                    us(0, 90),
                    stage("Root::Zip[0]::Interleave[17]::TextLine", us(1, 5), id=5),
                    stage("Root::Zip[0]::Interleave[18]::TextLine", us(11, 5), id=6),
                    stage("Root::Zip[1]::Range", us(21, 5), id=7),
                    id=1,
                )
            )
        )
    )
    assert rows(tables.stages, "stage", "type", "iterators") == [
        ("Root", "Root", 1),
        ("Root::Zip[1]::Range", "Range", 1),
        ("Root::Zip[0]::Interleave::TextLine", "TextLine", 2),
    ]


def test_an_address_that_another_pipeline_had_before_tells_the_two_apart() -> None:
    def epoch(at: int, root: str, below: str) -> tuple[Event, Event]:
        return stage(
            "Root",
            us(at, 10),
            stage("Root::Prefetch", us(at + 1, 5), id=2, parent_id=1, name=ref(root)),
            id=1,
            name=ref(root),
        ), stage("Root::Prefetch::Map", us(at + 2, 5), id=3, parent_id=2, name=ref(below))

    epochs = [
        epoch(0, "PrefetchDataset:4", "MapDataset:2"),
        epoch(20, "PrefetchDataset:9", "MapDataset:7"),
        epoch(40, "PrefetchDataset:4", "MapDataset:2"),
    ]
    tables = tables_of(
        host(
            line("python")(requested for requested, _ in epochs),
            thread("tf_data_iterator_resource", 1)(made for _, made in epochs),
        )
    )
    assert rows(tables.stages, "pipeline", "stage", "name", "elements") == [
        (0, "Root", "PrefetchDataset:4", 2),
        (0, "Root::Prefetch", "PrefetchDataset:4", 2),
        (0, "Root::Prefetch::Map", "MapDataset:2", 2),
        (1, "Root", "PrefetchDataset:9", 1),
        (1, "Root::Prefetch", "PrefetchDataset:9", 1),
        (1, "Root::Prefetch::Map", "MapDataset:7", 1),
    ]

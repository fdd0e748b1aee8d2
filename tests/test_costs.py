"""The costs of ops and the gains of fixes, for traces written by hand."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.corpus import CORPUS, needs_corpus, slow_but
from tests.tables.reading import HOST, tables_of
from tests.traces import (
    Event,
    Line,
    Plane,
    call,
    copy,
    eager,
    executor,
    gpu,
    host,
    iterator,
    kernel,
    launch,
    line,
    old_steps,
    op,
    send,
    step,
    stream,
    thread,
    us,
)
from traceanalyzer.costs import Costs
from traceanalyzer.diagnosis import cpu_ops, diagnose
from traceanalyzer.report.assemble import assemble
from traceanalyzer.run import Host, Run, load
from traceanalyzer.step_parts import step_parts
from traceanalyzer.timeline.device_parts import host_timeline
from traceanalyzer.timeline.walk import Phase

US = 1_000_000


def run_of(*planes: Plane) -> Run:
    tables = tables_of(*planes)
    return Run(
        name="run",
        path_name="run",
        hosts=(
            Host(
                name=HOST,
                file=None,
                tables=tables,
                start_ps=0,
                end_ps=0,
                device_properties={},
                timeline=host_timeline(tables),
            ),
        ),
    )


def ids(run: Run, *types: str) -> list[str]:
    return run.ops["op_id"][run.ops["type"].isin(types)].tolist()


def training(number: int, at_us: int, *between: Event) -> Event:
    """A step of 100 us: MatMul is launched at 5 and at 85 us after its start."""
    return step(number, us(at_us, 100))(
        eager("MatMul", us(at_us, 10))(launch(us(at_us + 5, 2), 2 * number + 1)),
        *between,
        eager("MatMul", us(at_us + 80, 10))(launch(us(at_us + 85, 2), 2 * number + 2)),
    )


def gemms(number: int, at_us: int) -> tuple[Event, Event]:
    return (
        kernel("gemm", us(at_us + 8, 12), correlation=2 * number + 1),
        kernel("gemm", us(at_us + 88, 10), correlation=2 * number + 2),
    )


def python(between: Callable[[int], Event]) -> Line:
    """Four steps, with something between the two launches of each."""
    return line("python")(*(training(k, 100 * k, between(100 * k)) for k in range(4)))


def unique(at_us: int) -> Event:
    return eager("UniqueV2", us(at_us + 30, 40))


WAITS = stream(13, "Compute")(*(e for k in range(4) for e in gemms(k, 100 * k)))
COMPUTES = stream(13, "Compute")(
    *(kernel("gemm", us(100 * k + 8, 90), correlation=2 * k + 1) for k in range(4))
)


def run_of_two_gpus() -> Run:
    """The first waits for an op of the host in each of four steps, the second computes."""
    return run_of(host(python(unique)), gpu(0, WAITS), gpu(1, COMPUTES))


def gain_of_unique(run: Run) -> float | None:
    return Costs(run).gain_ps(ids(run, "UniqueV2"))


def test_the_gain_is_at_most_what_a_device_waited() -> None:
    run = run_of(host(python(unique)), gpu(0, WAITS))
    assert Costs(run).exposed_ps(ids(run, "UniqueV2")) == gain_of_unique(run) == 40 * US
    # The other device computes all the time: in the mean, half of that was lost.
    run = run_of_two_gpus()
    assert Costs(run).exposed_ps(ids(run, "UniqueV2")) == 20 * US
    assert gain_of_unique(run) == 40 * US


def test_the_copy_of_an_op_counts_with_it() -> None:
    caller = line("python")(step(0, us(0, 100))(call("__inference_f_1", us(0, 100), step=7)))
    worker = thread("tf_Compute", 1)(
        executor(us(10, 60), step=7)(
            op("segment/Unique", "UniqueV2", us(12, 40)),
            send("segment/Unique", "gather/Gather", us(53, 6))(
                launch(us(54, 2), 1, "cuMemcpyHtoDAsync")
            ),
        )
    )
    other = thread("tf_Compute", 2)(
        executor(us(69, 10), step=7)(op("u/_1", "_Recv", us(69, 1)), launch(us(70, 2), 2))
    )
    device = (
        stream(13, "Compute")(
            kernel("fill", us(0, 5), op="zeros/Fill:Fill"),
            kernel("gather", us(74, 5), op="gather/Gather:Gather", correlation=2),
        ),
        stream(14, "MemcpyH2D")(
            copy("H2D", 4096, us(58, 10), op="segment/Unique/_1:_Send", correlation=1)
        ),
    )
    run = run_of(host(caller, worker, other), gpu(0, *device))
    assert gain_of_unique(run) == (40 + 10) * US


def test_steps_of_a_device_that_only_copied_cost_nothing_and_break_nothing() -> None:
    """No host plane and no kernel: there are steps, and nothing that could have waited."""
    steps = old_steps(*((f"train {k}", us(100 * k, 90)) for k in range(4)))
    copies = stream(14, "MemcpyH2D")(*(copy("H2D", 64, us(100 * k, 10)) for k in range(4)))
    run = run_of(gpu(0, copies, steps))

    assert len(run.steps) == 4
    assert Costs(run).gain_ps([]) is None
    assert assemble(diagnose(run)).summary.exposed_us_per_step is None


def test_a_pipeline_is_not_mended_by_moving_it_to_a_device() -> None:
    waits = python(lambda at_us: iterator("Root::Map", us(at_us + 20, 55)))
    run = run_of(host(waits), gpu(0, WAITS))

    diagnosis = diagnose(run)
    slow = tuple(replace(f, harm="harmful") for f in diagnosis.findings)

    (finding,) = assemble(replace(diagnosis, findings=slow)).findings

    assert finding.cause == "host_pipeline"
    assert finding.cost.exposed_us_per_step == 55
    assert finding.gain_us_per_step is None


@needs_corpus
@pytest.mark.parametrize(
    "folder",
    slow_but(
        "tfgpu-e4040-2023-hd2551".__eq__,
        ["tfgpu-fatma-cnn-sandor", "tfgpu-e4040-2023-hd2551", "tfgpu-tfprofiler-multiworker"],
    ),
)
def test_of_real_traces_findings_gain_no_more_than_was_lost(folder: str) -> None:
    run = load(CORPUS / folder)
    diagnosis = diagnose(run)
    costs = diagnosis.costs

    gains = [costs.gain_ps(f.op_ids) for f in diagnosis.findings]
    exposed = [costs.exposed_ps(f.op_ids) for f in diagnosis.findings]

    for gain, at_least in zip(gains, exposed, strict=True):
        if gain is None or at_least is None:
            assert run.steps.empty
            continue
        assert gain >= (1 - 1e-9) * at_least  # the mean of devices
    idle = max(
        int(d.parts.duration_ps[d.parts.phase != Phase.COMPUTE].sum())
        for h in run.hosts
        for d in h.timeline.devices
    )
    assert sum(gain or 0 for gain in gains) <= idle
    assert (costs.exposed_ps(cpu_ops(run)["op_id"]) or 0) <= idle


def beside_each_other(other: Callable[[int], Event]) -> Run:
    """Three steps without a device: UniqueV2 runs from 20 to 60 us, and the other op beside it."""
    steps = [200 * k for k in range(3)]
    python = line("python")(
        step(at // 200, us(at, 100))(call("__inference_f_1", us(at, 100), step=7 + at))
        for at in steps
    )
    first, second = (
        thread("tf_Compute", number)(
            executor(us(at + 10, 85), step=7 + at)(ran(at)) for at in steps
        )
        for number, ran in enumerate((unique_in_graph, other), 1)
    )
    return run_of(host(python, first, second))


def unique_in_graph(at_us: int) -> Event:
    return op("segment/Unique", "UniqueV2", us(at_us + 20, 40))


def test_ops_beside_each_other_cost_no_more_than_the_step_spends_on_them() -> None:
    run = beside_each_other(lambda at: op("parse/DecodeCSV", "DecodeCSV", us(at + 30, 50)))
    costs, (steps,) = Costs(run), step_parts(run)

    both = [costs.program_ps(ids(run, *names)) for names in (["UniqueV2"], ["DecodeCSV"])]

    assert both == [40 * US, 50 * US]
    assert costs.program_ps(run.ops["op_id"]) == 60 * US  # from 20 to 80
    assert steps.mean_us()["cpu_op"] == 60
    assert steps.mean_bounds_us() is None


def test_whether_a_step_waited_for_an_op_or_for_input_beside_it_is_open() -> None:
    run = beside_each_other(lambda at: op("next", "IteratorGetNext", us(at + 40, 50)))
    (steps,), report = step_parts(run), assemble(diagnose(run))

    assert steps.mean_bounds_us() == (20, 40)
    assert report.timeline is not None
    (bar,) = (p for p in report.timeline.devices[0].phases if p.phase == "cpu_op")
    assert bar.low_us == 20
    assert bar.low_us <= bar.us <= (bar.high_us or 0) == 40
    assert "20.0 to 40.0" in report.summary.verdict

"""Waits for other threads and devices, in hand-written traces."""

from tests.tables.reading import tables_of
from tests.timeline.test_device_parts import gemm, parts_of, shown
from tests.traces import (
    Event,
    Line,
    Span,
    call,
    eager,
    event,
    executor,
    gpu,
    host,
    launch,
    line,
    op,
    step,
    stream,
    thread,
    us,
)
from traceanalyzer.timeline.device_parts import host_timeline
from traceanalyzer.timeline.walk import Phase


def test_a_device_waits_for_another_that_the_manager_polled() -> None:
    python = line("python")(call("__inference_f_1", us(0, 100), step=7))
    manager = thread("tf_GPU_Event_Manager", 1)(
        event("ThreadpoolListener::Record", us(40), _pt=13, _p=99)
    )
    first = thread("tf_Compute", 3)(
        executor(us(5, 6), step=7)(launch(us(6, 2), 1), launch(us(8, 2), 3, number=1))
    )
    second = thread("tf_Compute", 2)(
        event("ThreadpoolListener::StartRegion", us(50), _ct=13, _c=99),
        executor(us(51, 15), step=7)(launch(us(62, 2), 2)),
    )
    own = stream(13, "Compute")(gemm(us(10, 15), 1), gemm(us(66, 5), 2))
    other = stream(13, "Compute")(gemm(us(10, 25), 3))

    found = parts_of(host(python, manager, first, second), gpu(0, own), gpu(1, other))

    assert found[1:3] == [(25, 35, "OTHER_DEVICE", ""), (35, 62, "RUNTIME", "")]


def test_a_session_waits_for_the_ops_of_its_run() -> None:
    """In TensorFlow 1, the program's own thread shows only `SessionRun`."""
    python = line("python")(event("SessionRun", us(0, 60), id=5, _r=1))
    worker = thread("tf_Compute", 1)(
        executor(us(10, 45), step=5)(op("a/Unique", "UniqueV2", us(12, 40)))
    )
    tables = tables_of(host(python, worker))

    parts = host_timeline(tables).program

    assert parts is not None
    assert (12, 52, "HOST_OP", "UniqueV2") in shown(parts, tables)
    assert not (parts.phase == Phase.PROGRAM).any()


def handed_over(op_type: str, at: Span, /) -> Event:
    """An eager op that the program hands over to TensorFlow, as 2.21 writes it."""
    return event("EagerExecute", at, eager_op=op_type, is_func=0)(
        event(f"EagerLocalExecute: {op_type}", at)
    )


def test_an_op_that_the_program_hands_over_does_not_compute_on_its_thread() -> None:
    python = line("python")(
        step(0, us(0, 100))(handed_over("UniqueV2", us(10, 5)), handed_over("ListDiff", us(20, 5)))
    )
    runs = thread("eager_async_executor", 1)(
        event("EagerKernelExecute", us(16, 20)), event("EagerKernelExecute", us(40, 30))
    )
    idle = thread("eager_async_executor", 1)
    without = line("python")(
        step(0, us(0, 100))(eager("UniqueV2", us(10, 5)), eager("ListDiff", us(20, 5)))
    )

    def program(*threads: Line) -> list[str]:
        tables = tables_of(host(*threads))
        parts = host_timeline(tables).program
        assert parts is not None
        return [phase for _, _, phase, _ in shown(parts, tables)]

    assert "HOST_OP" not in program(python, runs)
    assert program(without, idle).count("HOST_OP") == 2


def test_a_wait_for_a_value_is_not_known_to_be_for_the_device() -> None:
    """The other thread computes the value until 88; the device was done long before."""
    python = line("python")(
        step(0, us(0, 100))(
            handed_over("MatMul", us(5, 5)),
            handed_over("UniqueV2", us(11, 5)),
            event("TensorHandle::Tensor WaitReady", us(20, 70)),
        )
    )
    runs = thread("eager_async_executor", 1)(
        event("EagerKernelExecute", us(10, 10))(launch(us(14, 2), 1)),
        event("EagerKernelExecute", us(22, 66)),
    )

    found = parts_of(host(python, runs), gpu(0, stream(13, "Compute")(gemm(us(18, 12), 1))))

    assert found[-2:] == [(30, 90, "RUNTIME", ""), (90, 100, "PROGRAM", "")]


def test_what_a_function_within_a_function_did_is_waited_for() -> None:
    """It has its own step id, and no thread pool records who handed work over."""
    python = line("python")(call("__inference_f_1", us(0, 100), step=7))
    inner_call = op("outer/PartitionedCall", "PartitionedCall", us(10, 8))(
        event("FunctionRun", us(11, 3), id=8, _r=1, _pt=2, _p=78)
    )
    first = thread("tf_Compute", 1)(executor(us(5, 15), step=7)(launch(us(6, 2), 1), inner_call))
    inner = thread("tf_Compute", 2)(
        executor(us(22, 45), step=8, context=78)(op("nested/Unique", "UniqueV2", us(23, 40)))
    )
    after = thread("tf_Compute", 3)(executor(us(70, 10), step=7)(launch(us(72, 2), 2)))
    device = stream(13, "Compute")(gemm(us(8, 5), 1), gemm(us(76, 5), 2))

    found = parts_of(host(python, first, inner, after), gpu(0, device))

    assert (23, 63, "HOST_OP", "UniqueV2") in found


def program_parts(*threads: Line) -> list[tuple[float, float, str, str]]:
    """The parts of a program's time without devices."""
    tables = tables_of(host(*threads))
    parts = host_timeline(tables).program
    assert parts is not None
    return shown(parts, tables)


def test_a_call_waits_for_an_op_while_another_of_its_threads_does_nothing() -> None:
    """The last op is not on the thread that was busy: an executor held the other one up."""
    python = line("python")(step(0, us(0, 100))(call("__inference_f_1", us(0, 100), step=7)))
    first = thread("tf_Compute", 1)(
        executor(us(10, 80), step=7)(op("a/Unique", "UniqueV2", us(80, 5)))
    )
    second = thread("tf_Compute", 2)(
        executor(us(12, 50), step=7)(op("parse/DecodeCSV", "DecodeCSV", us(15, 40)))
    )

    found = program_parts(python, first, second)

    assert (15, 55, "HOST_OP", "DecodeCSV") in found
    assert (80, 85, "HOST_OP", "UniqueV2") in found
    assert sum(end - start for start, end, phase, _ in found if phase == "RUNTIME") == 55


def test_a_call_does_not_wait_for_an_op_of_another_call() -> None:
    python = line("python")(step(0, us(0, 100))(call("__inference_f_1", us(0, 100), step=7)))
    first = thread("tf_Compute", 1)(
        executor(us(10, 80), step=7)(op("a/Unique", "UniqueV2", us(80, 5)))
    )
    other = thread("tf_Compute", 2)(
        executor(us(12, 50), step=8)(op("parse/DecodeCSV", "DecodeCSV", us(15, 40)))
    )

    assert not [part for part in program_parts(python, first, other) if part[3] == "DecodeCSV"]


def test_a_call_waits_for_an_op_of_a_function_that_it_calls() -> None:
    python = line("python")(step(0, us(0, 100))(call("__inference_f_1", us(0, 100), step=7)))
    inner_call = op("outer/PartitionedCall", "PartitionedCall", us(10, 2))(
        event("FunctionRun", us(11, 1), id=8, _r=1, _pt=2, _p=78)
    )
    first = thread("tf_Compute", 1)(
        executor(us(5, 85), step=7)(inner_call, op("a/Unique", "UniqueV2", us(80, 5)))
    )
    inner = thread("tf_Compute", 2)(
        executor(us(22, 45), step=8, context=78)(op("nested/DecodeCSV", "DecodeCSV", us(23, 40)))
    )

    assert (23, 63, "HOST_OP", "DecodeCSV") in program_parts(python, first, inner)


def test_whether_a_device_waited_for_an_op_that_ran_on_beyond_its_next_launch_is_open() -> None:
    """`UniqueV2` had ended when the second kernel was launched; `DecodeCSV` had not."""
    python = line("python")(call("__inference_f_1", us(0, 100), step=7))
    launches = thread("tf_Compute", 1)(
        executor(us(5, 60), step=7)(launch(us(6, 2), 1), launch(us(60, 2), 2, number=1))
    )
    before = thread("tf_Compute", 2)(
        executor(us(20, 30), step=7)(op("a/Unique", "UniqueV2", us(22, 20)))
    )
    beyond = thread("tf_Compute", 3)(
        executor(us(14, 70), step=7)(op("parse/DecodeCSV", "DecodeCSV", us(15, 60)))
    )
    device = stream(13, "Compute")(gemm(us(8, 5), 1), gemm(us(64, 5), 2))

    tables = tables_of(host(python, launches, before, beyond), gpu(0, device))
    (found,) = host_timeline(tables).devices

    assert shown(found.parts, tables)[1:5] == [
        (13, 15, "RUNTIME", ""),
        (15, 22, "HOST_OP", "DecodeCSV"),
        (22, 42, "HOST_OP", "UniqueV2"),
        (42, 60, "HOST_OP", "DecodeCSV"),
    ]
    is_open = found.parts.other != found.parts.phase
    assert [found.parts.row[k] for k in is_open.nonzero()[0]] == [
        tables.ops["type"].tolist().index("DecodeCSV")
    ] * 2
    assert set(found.parts.other[is_open]) == {Phase.RUNTIME}


def test_a_device_does_not_wait_for_an_op_of_an_earlier_call_that_went_on() -> None:
    python = line("python")(
        call("__inference_f_1", us(0, 20), step=7), call("__inference_f_2", us(20, 80), step=8)
    )
    launches = thread("tf_Compute", 1)(
        executor(us(5, 6), step=7)(launch(us(6, 2), 1)),
        executor(us(21, 60), step=8)(launch(us(60, 2), 2)),
    )
    beyond = thread("tf_Compute", 3)(
        executor(us(14, 70), step=7)(op("parse/DecodeCSV", "DecodeCSV", us(15, 60)))
    )
    device = stream(13, "Compute")(gemm(us(8, 5), 1), gemm(us(64, 5), 2))

    found = parts_of(host(python, launches, beyond), gpu(0, device))

    assert "HOST_OP" not in {phase for _, _, phase, _ in found}


def test_what_the_program_did_counts_where_a_thread_does_not_show_its_trigger() -> None:
    """The program waits for a pipeline, on a thread that nothing shows the beginning of."""
    python = line("python")(
        eager("UniqueV2", us(0, 30)),
        eager("IteratorGetNext", us(40, 30)),
        call("__inference_f_1", us(70, 30), step=7),
    )
    worker = thread("tf_Compute", 1)(
        event("ThreadpoolListener::StartRegion", us(74), _ct=13, _c=99),
        executor(us(75, 20), step=7)(op("a/Unique", "UniqueV2", us(76, 10))),
    )
    pipeline = thread("tf_data_private_threadpool", 2)(
        executor(us(45, 20), step=9)(op("b/Cast", "Cast", us(46, 10))),
        event("ThreadpoolListener::Record", us(64), _pt=13, _p=99),
    )

    found = program_parts(python, worker, pipeline)

    assert "UNATTRIBUTED" not in {phase for _, _, phase, _ in found}
    assert (0, 30, "HOST_OP", "UniqueV2") in found


def test_an_op_that_the_program_may_have_waited_for_widens_the_bounds() -> None:
    """The trace does not show which thread computed the value."""
    python = line("python")(
        step(0, us(0, 100))(event("TensorHandle::Tensor WaitReady", us(20, 70)))
    )
    other = thread("tf_Compute", 1)(
        executor(us(30, 30), step=9)(op("a/Unique", "UniqueV2", us(35, 20)))
    )
    tables = tables_of(host(python, other))

    parts = host_timeline(tables).program

    assert parts is not None
    assert not parts.is_host_op.any()
    assert parts.may_be_host_op.sum() == 1
    (at,) = parts.may_be_host_op.nonzero()[0]
    start_ps = tables.steps["start_ps"].iloc[0]
    assert [(parts.start_ps[at] - start_ps) // 10**6, parts.duration_ps[at] // 10**6] == [35, 20]
    assert parts.phase[at] == Phase.RUNTIME
    assert parts.duration_ps.sum() == 100 * 10**6

"""The time in which TensorFlow builds and compiles graphs, in hand-written traces."""

from tests.tables.reading import tables_of
from tests.traces import Event, call, eager, event, executor, host, line, ref, thread, us
from traceanalyzer.tables.host_tables import HostTables
from traceanalyzer.timeline.device_parts import host_timeline
from traceanalyzer.timeline.walk import Phase

US = 1_000_000


def times_us(tables: HostTables) -> dict[str, float]:
    """The time of each phase of the program's thread in microseconds."""
    parts = host_timeline(tables).program
    assert parts is not None
    took = {phase.name: parts.duration_ps[parts.phase == phase].sum() / US for phase in Phase}
    return {name: us for name, us in took.items() if us}


def python_call(at: float, took: float, stat: str = "notTraced-nonXla") -> Event:
    return event("train", us(at, took), tf_function_call=ref(stat))


def run(counter: int, at: float, took: float, kernel_at: float) -> Event:
    """A call of a function, which begins with its set-up until its kernel runs."""
    kernel = event("EagerKernelExecute", us(kernel_at, at + took - kernel_at))
    body = event("FunctionRun", us(kernel_at + 1, at + took - kernel_at - 2), id=counter)
    return event(f"EagerLocalExecute: __inference_train_{counter}", us(at, took))(kernel(body))


def test_a_call_that_traces_prepares_until_the_kernel_runs() -> None:
    python = line("python")(
        python_call(0, 100, "traced-nonXla")(
            event("tf.function-graph_building", us(5, 40))(eager("Fill", us(10, 8))),
            run(7, 50, 50, kernel_at=70),
        ),
        python_call(100, 30)(run(7, 100, 30, kernel_at=110)),
    )
    pool = thread("tf_Compute", 1)(executor(us(72, 27), step=7)(event("mul:Mul", us(73, 25))))

    took = times_us(tables_of(host(python, pool)))

    # 50 us in Python without the op in it, and 20 us of set-up.
    assert took["PREPARATION"] == 50 - 8 + 20


def test_an_op_that_compiles_prepares_until_the_compiled_program_runs() -> None:
    compiled = event("CpuCompiler::RunBackend", us(30, 40))(
        event("JitCompiler::Compile", us(40, 20))
    )
    python = line("python")(
        call("__inference_train_7", us(0, 100))(
            event("__inference_train_7:__inference_train_7", us(10, 90))(
                compiled, event("CpuExecutable::ExecuteAsyncOnStream", us(75, 20))
            )
        )
    )

    took = times_us(tables_of(host(python)))

    assert took == {"PREPARATION": 70, "RUNTIME": 30}


def test_a_trace_without_tracing_has_no_preparation() -> None:
    python = line("python")(
        *(python_call(t, 90)(run(7, t + 5, 80, kernel_at=t + 30)) for t in (0, 100, 200))
    )

    tables = tables_of(host(python))

    assert "PREPARATION" not in times_us(tables)
    assert "warm_up" not in set(tables.steps["kind"].astype(str))


def functions(*graphs: tuple[str, ...]) -> list[tuple[str, str, int]]:
    """The rows of a function whose graphs have these ops, one call of each."""
    called, ran = [], []
    for k, ops in enumerate(graphs):
        at = us(100 * k, 90)
        called.append(call(f"__inference_train_{k}", at, step=k + 1))
        inside = (event(f"{op}:{op}", us(100 * k + 10 * n + 5, 5)) for n, op in enumerate(ops))
        ran.append(executor(at, step=k + 1)(*inside))
    found = tables_of(host(line("python")(*called), thread("tf_Compute", 1)(*ran))).ops
    return sorted(zip(found["function"], found["type"], found["occurrences"], strict=True))


def test_ops_of_graphs_of_one_function_count_once() -> None:
    """TensorFlow stops recording cheap ops, so that not all graphs show all ops."""
    most = ("Mul", "Add", "Exp", "Log", "Sum")

    assert functions(most, most[:4], most, most[:4]) == [
        *(("train", op, 4) for op in sorted(most[:4])),
        ("train", "Sum", 2),
    ]


def test_variants_of_a_function_keep_their_ops() -> None:
    train, test = ("Mul", "Add"), ("Mul", "Exp")

    assert len(functions(train, test, train, test)) == 4
    assert len(functions(train, train)) == 4  # two may be variants


def test_a_function_that_is_traced_very_often_is_read_in_time_linear_in_its_traces() -> None:
    calls = (call(f"__inference_train_{k}", us(10 * k, 9), step=k + 1) for k in range(20_000))

    tables = tables_of(host(line("python")(*calls)))

    assert tables.steps["name"].astype(str).unique().tolist() == ["train"]

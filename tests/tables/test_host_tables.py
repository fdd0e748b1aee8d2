"""All tables of one host, together."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tables.reading import HOST, problems, rows, tables_of
from tests.traces import (
    allocation,
    call,
    copy,
    deallocation,
    decode,
    eager,
    event,
    executor,
    gpu,
    host,
    iterator,
    kernel,
    launch,
    line,
    old_eager,
    old_steps,
    op,
    plane,
    ps,
    ref,
    send,
    step,
    stream,
    task_environment,
    thread,
    us,
    xla_kernel,
    xspace,
)
from traceanalyzer.tables.host_tables import HostTables, host_tables
from traceanalyzer.tables.schema import SCHEMAS

EVERYTHING = (
    host(
        line("python")(
            step(1, us(0, 90))(call("__inference_f_1", us(1, 9), step=-5), eager("Neg", us(20, 9))),
            old_eager("Abs", us(100, 9)),
        ),
        thread("tf_Compute", 1)(
            executor(us(1, 8), step=-5)(op("b", "MatMul", us(2, 5))(launch(us(3, 1), 7))),
            executor(us(10, 50), step=-5, context=78)(
                op("a", "Pack", us(10, 2)),
                send("a", "b", us(14, 5))(launch(us(15, 1), 8)),
                allocation(64, us(20), "b"),
            ),
        ),
        thread("tf_data_x", 2)(iterator("Root::Map", us(0, 9))(op("m", "Cast", us(1, 1)))),
    ),
    task_environment(options=b"\x10\x02\x18\x01"),
    gpu(0)(
        stream(7, "Compute")(
            kernel("gemm", us(30, 5), "b:MatMul", correlation=7),
            xla_kernel("fusion", us(40, 5), "fusion.1"),
            kernel("stray", us(60, 1)),
        ),
        stream(8, "MemcpyH2D")(copy("H2D", 64, us(32, 2), "a/_1:_Send", correlation=8)),
        old_steps(("train 1", us(0, 99))),
        line("TensorFlow Ops")(op("b", "MatMul", us(30, 5))),
    ),
    gpu(1),
)


def check(tables: HostTables) -> None:
    """What holds of any tables."""
    ops, kernels, copies = tables.ops, tables.kernels, tables.transfers
    assert problems(tables) == []
    assert ops["op_id"].is_unique
    assert set(kernels["op_id"].dropna()) <= set(ops["op_id"])
    assert set(tables.allocations["op_id"].dropna()) <= set(ops["op_id"])
    for end in ("producer", "consumer"):
        assert set(copies[end].dropna()) <= set(ops["op_id"])
    assert (ops["host_self_ps"] >= 0).all()
    linked = kernels[kernels["op_id"].notna()]
    assert int(ops["kernels"].sum()) == len(linked)
    assert int(ops["kernel_ps"].sum()) == int(linked["duration_ps"].sum())
    by_kernel = ops[ops["placement_source"] == "kernel"]
    assert (by_kernel["kernels"] > 0).all()
    assert (by_kernel["placement"] != "cpu").all()
    assert set(ops["placement_certainty"]) <= {"certain", "likely", "possible"}
    assert (ops.loc[ops["placement"] == "unknown", "placement_certainty"] == "possible").all()


def test_all_tables_of_a_host() -> None:
    tables = tables_of(*EVERYTHING)

    check(tables)
    assert {
        name: len(getattr(tables, name)) for name in ("kernels", "transfers", "allocations")
    } == {"kernels": 3, "transfers": 1, "allocations": 1}
    assert rows(tables.steps, "step", "name") == [(1, "train")]
    for schema in SCHEMAS:
        assert set(getattr(tables, schema.name)["host"].astype(str)) == {HOST}
    assert sorted(rows(tables.ops, "function", "name", "placement"), key=repr) == [
        ("cluster_0", "fusion.1", "xla"),
        ("f", "a", "cpu"),
        ("f", "a/_1", "cpu"),
        ("f", "b", "gpu:0"),
        ("tf.data", "m", "cpu"),
        (None, "Abs", "unknown"),
        (None, "Iterator::Root::Map", "cpu"),
        (None, "Neg", "unknown"),
    ]


def test_of_several_host_planes_the_fullest_counts() -> None:
    tables = tables_of(
        plane("/host:CPU"),
        host(line("python")(eager("Neg", us(0, 9)), eager("Abs", us(20, 9)))),
        host(line("python")(eager("Exp", us(0, 9)))),
    )

    assert sorted(tables.ops["name"]) == ["Abs", "Neg"]


_EVENT_NAMES = (
    "a:MatMul|a:Neg|b/c:Neg|Neg:Neg|a/_1:_Send|a/_2:_Recv|x:_Arg|EagerLocalExecute: Neg"
    "|EagerLocalExecute: EagerPyFunc|EagerLocalExecute: __inference_f_1"
    "|EagerLocalExecute: __inference_f_2|ExecutorState::Process|FunctionRun|Iterator::Root::Map"
    "|InstantiatedCapturedFunction::Run|_Send input 0 from /device:CPU:0 to /device:GPU:0"
    "|_Send input 1 from /device:GPU:0 to /device:CPU:0|MemoryAllocation|MemcpyH2D|MemcpyD2H|gemm"
    "|cuLaunchKernel|"
)
_STAT_NAMES = (
    "id _c _p _r from to key tf_op annotation correlation_id memcpy_details hlo_op shape"
    " allocator_name region_type step_num is_eager eager_op name"
)
_NAMES = st.sampled_from(_EVENT_NAMES.split("|"))
_STATS = st.dictionaries(
    st.sampled_from(_STAT_NAMES.split()),
    st.one_of(
        st.integers(-3, 12),
        st.sampled_from(
            [
                "a",
                "b/c",
                "a:MatMul",
                "a:Neg#x#",
                "Neg:Neg",
                "size:4 dest:0 async:1",
                "(float[2];half[])",
                "GPU_0_bfc",
                "output",
                "/device:CPU:0;1;/device:GPU:0;edge_1_a;0:0",
                "/job:w/task:0/device:GPU:1;1;/job:w/task:0/device:CPU:0;edge_1_a;0:0",
                "",
            ]
        ).map(ref),
    ),
    max_size=5,
)
_EVENTS = st.lists(
    st.builds(
        lambda name, start, length, stats: event(name, ps(start, length), stats=stats),
        _NAMES,
        st.integers(0, 60),
        st.integers(-5, 40),
        _STATS,
    ),
    max_size=12,
)
_LINES = st.lists(
    st.builds(
        lambda name, events: line(name)(events),
        st.sampled_from(["python", "tf_Compute/1", "tf_data_x", "Stream #1(Compute)", "Steps"]),
        _EVENTS,
    ),
    max_size=3,
)
_PLANES = st.lists(
    st.builds(
        lambda name, lines: plane(name)(lines),
        st.sampled_from(
            ["/host:CPU", "/device:GPU:0", "/device:GPU:1", "/device:TPU:0", "/host:metadata"]
        ),
        _LINES,
    ),
    max_size=4,
)


@given(_PLANES, st.sampled_from([b"", b"\x10\x02\x18\x01", b"\x10\x03\x18\x01", b"\x10\x02"]))
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_whatever_a_trace_holds_the_tables_are_sound(planes: list[Any], options: bytes) -> None:
    tables = host_tables(HOST, 0, decode(xspace(planes, task_environment(options=options))))

    check(tables)
    if not tables.facts.gpu_used and not tables.facts.accelerators:
        assert not tables.ops["placement"].astype(str).str.startswith("gpu").any()


US = 10**6


def test_allocations_and_what_was_given_back_come_in_order_of_time() -> None:
    tables = tables_of(
        host(
            line("b")(deallocation(1000, us(5), address=0xA0, in_use=512, peak=1536)),
            line("a")(
                allocation(1000, us(1), "dense/MatMul", address=0xA0, in_use=1024),
                allocation(
                    4,
                    us(2),
                    "Shape",
                    allocator="gpu_host_bfc",
                    address=0xB0,
                    type=3,
                    shape="[1]",
                    region="temp",
                ),
            ),
        )
    )

    assert rows(
        tables.allocations,
        "start_ps",
        "is_allocation",
        "allocator",
        "requested_bytes",
        "allocation_bytes",
        "addr",
        "op_name",
        "region_type",
        "data_type",
        "shape",
    ) == [
        (1 * US, True, "GPU_0_bfc", 1000, 1024, 0xA0, "dense/MatMul", "output", "float", "[]"),
        (2 * US, True, "gpu_host_bfc", 4, 256, 0xB0, "Shape", "temp", "int32", "[1]"),
        (5 * US, False, "GPU_0_bfc", 1000, 1024, 0xA0, None, None, None, None),
    ]
    assert rows(tables.allocations, "bytes_allocated", "bytes_available", "peak_bytes_in_use") == [
        (1024, 10**10, 1024),
        (256, 10**10, 256),
        (512, 10**10, 1536),
    ]


@pytest.mark.parametrize("nothing", ["(null)"])
def test_words_for_nothing_are_null(nothing: str) -> None:
    named = event(
        "MemoryAllocation", us(0), tf_op=nothing, region_type=nothing, shape=nothing, data_type=0
    )

    tables = tables_of(host(line("a")(named)))

    assert rows(tables.allocations, "op_name", "region_type", "shape", "data_type") == [(None,) * 4]


def test_an_allocation_belongs_to_the_one_op_of_its_name() -> None:
    tables = tables_of(
        host(
            line("a")(
                op("once", "Pack", us(0, 1)),
                op("twice", "Pack", us(2, 1)),
                op("twice", "Concat", us(4, 1)),
                allocation(4, us(10), "once"),
                allocation(4, us(11), "twice"),
                allocation(4, us(12), "never seen"),
                allocation(4, us(13), ""),
            )
        )
    )
    (op_id,) = rows(tables.ops[tables.ops["name"] == "once"], "op_id")

    assert rows(tables.allocations, "op_id") == [op_id, None, None, None]

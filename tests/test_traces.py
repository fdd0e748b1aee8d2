"""The language in which tests write traces."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pytest

from tests.traces import (
    NO_VALUE,
    allocation,
    call,
    copy,
    deallocation,
    decode,
    eager,
    eager_send,
    event,
    executor,
    gpu,
    host,
    iterator,
    keras_step,
    kernel,
    launch,
    line,
    metadata,
    ms,
    ns,
    old_copy,
    old_eager,
    old_kernel,
    old_launch,
    old_op,
    old_ops,
    old_scopes,
    old_send,
    old_steps,
    op,
    plane,
    ps,
    recv,
    ref,
    send,
    step,
    stream,
    task_environment,
    thread,
    uint,
    us,
    write,
    xla_kernel,
    xspace,
)
from tests.xspace_proto import XSpace

if TYPE_CHECKING:
    from pathlib import Path

    from tests.traces import Event

JOB = "/job:localhost/replica:0/task:0"


def told(message: Any, stats: Any) -> dict[str, tuple[str | None, Any]]:  # noqa: ANN401
    """The stats of a protobuf message: name -> field and value, references resolved."""
    found = {}
    for stat in stats:
        kind = stat.WhichOneof("value")
        value = getattr(stat, kind) if kind else None
        if kind == "ref_value":
            value = message.stat_metadata[value].name
        found[message.stat_metadata[stat.metadata_id].name] = (kind, value)
    return found


def written(*events: Event) -> list[tuple[str, int, int, dict[str, Any]]]:
    """Names, offsets, durations and stats of the events that a line of these has."""
    (message,) = xspace(host(line("python")(events))).planes
    return [
        (
            message.event_metadata[e.metadata_id].name,
            e.offset_ps,
            e.duration_ps,
            {name: value for name, (_, value) in told(message, e.stats).items()},
        )
        for e in message.lines[0].events
    ]


def test_a_trace_reads_as_it_is_written() -> None:
    space = xspace(
        host(
            line("python", at_ns=33_000)(
                event("train", us(0, 100), step_num=7)(
                    op("dense/MatMul", "MatMul", us(10, 5)),
                    op("Unique", "Unique", us(20, 8)),
                ),
            ),
        ),
        gpu(0)(
            stream(13, "Compute")(
                kernel("gemm", us(12, 3), op="dense/MatMul:MatMul", correlation=7),
            ),
        ),
        hostname="worker",
    )
    trace = decode(space)
    python, device = trace.planes
    assert trace.hostnames == ("worker",)
    assert [python.names[i] for i in python.name_of] == [
        "train", "dense/MatMul:MatMul", "Unique:Unique",
    ]  # fmt: skip
    assert python.start_ps.tolist() == [33_000_000, 43_000_000, 53_000_000]
    assert python.duration_ps.tolist() == [100_000_000, 5_000_000, 8_000_000]
    assert python.integers("step_num").values.tolist() == [7, 0, 0]
    assert device.name == "/device:GPU:0"
    assert device.lines.name == ("Stream #13(Compute)",)
    assert device.strings("tf_op").to_list() == ["dense/MatMul:MatMul"]
    assert device.own["core_count"] == "132"


@pytest.mark.parametrize(
    ("span", "start_ps", "duration_ps"),
    [
        (ps(3), 3, 0),
        (ps(3, 4), 3, 4),
        (ns(1.5, 0.001), 1_500, 1),
        (us(10, 5), 10_000_000, 5_000_000),
        (us(0.1, 0.2), 100_000, 200_000),
        (ms(2, 0.25), 2_000_000_000, 250_000_000),
    ],
)
def test_times_are_exact(span: tuple[int, int], start_ps: int, duration_ps: int) -> None:
    assert span == (start_ps, duration_ps)


def test_less_than_a_picosecond_is_refused() -> None:
    with pytest.raises(ValueError, match="whole number of picoseconds"):
        ns(0.0001)


@pytest.mark.parametrize("child", [us(9, 1), us(19, 2), us(30, 1)])
def test_an_event_must_lie_within_the_one_around_it(child: Any) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match="does not lie within"):
        event("outer", us(10, 10))(event("inner", child))


def test_events_side_by_side_may_cross() -> None:
    events = written(event("a", us(0, 10)), event("b", us(5, 10)))
    assert [(name, start) for name, start, *_ in events] == [("a", 0), ("b", 5_000_000)]


def test_things_may_come_from_a_loop() -> None:
    events = written(event("outer", us(0, 10))(event(f"e{i}", us(i, 1)) for i in range(3)))
    assert [name for name, *_ in events] == ["outer", "e0", "e1", "e2"]


def test_a_word_is_not_changed_by_what_is_put_into_it() -> None:
    empty = line("python")
    empty(event("e", us(0)))
    assert empty.inside == ()


def test_stats_keep_their_kind() -> None:
    (message,) = xspace(
        host(
            line("t")(
                event(
                    "e",
                    us(0),
                    text="t",
                    reference=ref("r"),
                    number=-5,
                    large=2**63,
                    unsigned=uint(5),
                    float=0.5,
                    bytes=b"\xff",
                    flag=True,
                    nothing=NO_VALUE,
                    stats={"level 0": "x"},
                )
            )
        )
    ).planes
    assert told(message, message.lines[0].events[0].stats) == {
        "level 0": ("str_value", "x"),
        "text": ("str_value", "t"),
        "reference": ("ref_value", "r"),
        "number": ("int64_value", -5),
        "large": ("uint64_value", 2**63),
        "unsigned": ("uint64_value", 5),
        "float": ("double_value", 0.5),
        "bytes": ("bytes_value", b"\xff"),
        "flag": ("int64_value", 1),
        "nothing": (None, None),
    }


def test_events_of_a_name_share_metadata_unless_they_differ_in_it() -> None:
    (message,) = xspace(
        host(
            line("t")(
                event("a", us(0)),
                event("a", us(1)),
                event("a", us(2), display_name="A"),
                event("a", us(3), metadata_stats={"flops": 5}),
            )
        )
    ).planes
    ids = [e.metadata_id for e in message.lines[0].events]
    assert ids == [1, 1, 2, 3]
    assert message.event_metadata[2].display_name == "A"
    assert told(message, message.event_metadata[3].stats) == {"flops": ("int64_value", 5)}


def test_an_aggregate_has_a_count_and_no_start() -> None:
    (message,) = xspace(host(line("t")(event("a", us(0, 9), occurrences=3)))).planes
    (aggregate,) = message.lines[0].events
    assert aggregate.WhichOneof("data") == "num_occurrences"
    assert (aggregate.num_occurrences, aggregate.duration_ps) == (3, 9_000_000)


def test_metadata_without_events() -> None:
    (message,) = xspace(
        plane("/host:metadata", id=5, note="n")(
            metadata("jit_f", content=b"\x01", children=["a"], stats={"Hlo Proto": b"\x08\x01"})
        )
    ).planes
    assert message.id == 5
    assert told(message, message.stats) == {"note": ("str_value", "n")}
    entry = message.event_metadata[1]
    assert (entry.name, entry.metadata) == ("jit_f", b"\x01")
    assert told(message, entry.stats) == {"Hlo Proto": ("bytes_value", b"\x08\x01")}
    assert [message.event_metadata[c].name for c in entry.child_id] == ["a"]


def test_lines_are_numbered_unless_they_say_so() -> None:
    (message,) = xspace(host(line("a"), thread("tf_Compute", -5), line("b"))).planes
    assert [(x.id, x.name) for x in message.lines] == [
        (1001, "a"), (-5, "tf_Compute/-5"), (1003, "b"),
    ]  # fmt: skip


def test_the_profile_says_when_it_ran_and_what_went_wrong() -> None:
    space = xspace(
        task_environment(5, 9, options=b"\x08\x01"),
        errors=["e"],
        warnings=["w"],
        hostname="",
    )
    assert (list(space.errors), list(space.warnings), list(space.hostnames)) == (["e"], ["w"], [])
    (message,) = space.planes
    assert told(message, message.stats) == {
        "profile_start_time": ("uint64_value", 5),
        "profile_stop_time": ("uint64_value", 9),
        "profile_options": ("bytes_value", b"\x08\x01"),
    }


def test_several_hosts_and_runs_lie_where_tensorboard_looks(tmp_path: Path) -> None:
    space = xspace(host(), hostname="a")
    assert write(tmp_path, space) == tmp_path
    write(tmp_path, space, host="b", compressed=True)
    write(tmp_path, b"not a trace", run="other")
    files = {p.relative_to(tmp_path).as_posix(): p for p in tmp_path.rglob("*.*pb*")}
    assert sorted(files) == [
        "plugins/profile/other/host.xplane.pb",
        "plugins/profile/run/a.xplane.pb",
        "plugins/profile/run/b.xplane.pb.gz",
    ]
    content = files["plugins/profile/run/a.xplane.pb"].read_bytes()
    assert XSpace.FromString(content) == space
    assert gzip.decompress(files["plugins/profile/run/b.xplane.pb.gz"].read_bytes()) == content


def test_an_eager_op_is_four_events_and_what_is_put_in_lies_in_all() -> None:
    at = us(20, 8)
    sent = eager_send(us(21, 1), "GPU:0", "CPU:0")
    assert written(eager("Unique", at)(sent)) == [
        ("EagerExecute", *at, {"eager_op": "Unique", "is_func": 0}),
        ("EagerLocalExecute: Unique", *at, {}),
        ("EagerKernelExecute", *at, {}),
        ("KernelAndDeviceFunc::Run", *at, {}),
        (f"_Send input 0 from {JOB}/device:GPU:0 to {JOB}/device:CPU:0", *us(21, 1), {}),
    ]


def test_a_call_and_its_executor_share_step_and_context() -> None:
    *_, run, process = written(
        call("__inference_f_1", us(0, 10), step=-3, context=4),
        executor(us(2, 5), step=-3, context=4),
    )
    assert run == ("FunctionRun", 0, 10_000_000, {"id": -3, "_r": 1, "_pt": 2, "_p": 4})
    assert process[0] == "ExecutorState::Process"
    assert process[3] == {"id": -3, "iter_num": 0, "_ct": 2, "_c": 4}


def test_edges_between_devices() -> None:
    sent, host_sent, received = written(
        send("ecpu", "Cast", us(0), edge=7),
        send("sj", "Identity", us(1), "GPU:1", "CPU:0", kind="_HostSend"),
        recv("my_mm", us(2), edge=2),
    )
    assert sent[0] == "ecpu/_7:_Send"
    assert sent[3]["from"] == "ecpu"
    assert sent[3]["to"] == "Cast"
    assert sent[3]["key"] == (
        f"{JOB}/device:CPU:0;9b7f3a2c11d0e4f5;{JOB}/device:GPU:0;edge_7_ecpu;0:0"
    )
    assert host_sent[0] == "sj/_1:_HostSend"
    assert host_sent[3]["key"].startswith(f"{JOB}/device:GPU:1;")
    assert received == ("my_mm/_2:_Recv", 2_000_000, 0, {})


def test_steps_and_iterators() -> None:
    assert [(name, stats) for name, _, _, stats in written(
        step(5, us(0, 9)),
        keras_step(6, us(10, 9), epoch=1),
        iterator("Root", us(1, 1)),
        iterator("Root::Map", us(2, 1), parallelism=2),
    )] == [
        ("train", {"step_num": 5, "_r": 1}),
        (
            "TraceContext",
            {"graph_type": "train", "epoch_num": 1, "step_num": 6, "batch_size": 32, "_r": 1},
        ),
        ("Iterator::Root", {}),
        ("Iterator::Root::Map", {"parallelism": 2}),
    ]  # fmt: skip
    (message,) = xspace(host(line("t")(iterator("Root::Map", us(0))))).planes
    assert message.event_metadata[1].display_name == "Iterator::Map"


def test_kernels_copies_and_their_launches() -> None:
    ran, fused, copied, launched = written(
        kernel("gemm", us(0, 3), op="dense/MatMul:MatMul", correlation=7),
        xla_kernel("fusion_1", us(3, 1), "fusion.1", op="jit(f)/add", correlation=8),
        copy("H2D", 4096, us(4, 2), op="x/_1:_Send", source="pageable", correlation=9, number=1),
        launch(us(5, 1), 7, number=1),
    )
    assert ran[3]["tf_op"] == "dense/MatMul:MatMul"
    assert ran[3]["correlation_id"] == 7
    assert ran[3]["kernel_details"].startswith("regs:32 static_shared:0 ")
    assert fused[3]["hlo_op"] == "fusion.1"
    assert fused[3]["hlo_module"] == "cluster_0"
    assert fused[3]["name"] == "jit(f)/add"
    assert copied == (
        "MemcpyH2D",
        *us(4, 2),
        {
            "context_id": "$$1",
            "correlation_id": 9,
            "memcpy_details": "kind_src:pageable kind_dst:device size:4096 dest:1 async:1",
            "tf_op": "x/_1:_Send",
        },
    )
    assert launched[0] == "cuLaunchKernel"
    assert launched[3] == {"device_id": 1, "correlation_id": 7, "context_id": "$$1"}


def test_memory_is_taken_and_given_back() -> None:
    taken, given = written(
        allocation(1000, us(0), op="dense/MatMul", shape="[250]"),
        deallocation(1000, us(1)),
    )
    assert taken[0] == "MemoryAllocation"
    assert taken[3] | given[3] == taken[3] | {
        "id": 0, "data_type": 0, "bytes_allocated": 0, "peak_bytes_in_use": 0,
    }  # fmt: skip
    assert (taken[3]["requested_bytes"], taken[3]["allocation_bytes"]) == (1000, 1024)
    assert (taken[3]["tf_op"], taken[3]["shape"]) == ("dense/MatMul", "[250]")
    assert given[0] == "MemoryDeallocation"
    assert "tf_op" not in given[3]


def test_old_files_are_grouped_and_annotated() -> None:
    ran, copied, numpy, launched, sent = written(
        old_kernel("gemm", us(0, 3), op="dense/MatMul:MatMul", correlation=7, group=2),
        old_copy(
            "H2D", 64, us(1), op="x/_1:_Send", producer="x", consumer="y", edge=25, correlation=8
        ),
        old_copy("D2H", 4, us(2), correlation=9),
        old_launch("gemm", us(0, 1), 7, group=2),
        old_send("x", "y", us(3)),
    )
    assert ran[3]["annotation"] == ran[3]["level 0"] == "dense/MatMul:MatMul"
    assert (ran[3]["group_id"], ran[3]["is_eager"]) == (2, 0)
    assert copied[3] == {
        "correlation_id": 8,
        "context_id": "$$1",
        "memcpy_details": "size:64 dest:0 async:1",
        "annotation": "x/_1:_Send#from=x,to=y#::#edge_name=edge_25_x#",
        "edge_name": "edge_25_x",
        "from": "x",
        "to": "y",
        "level 0": "x/_1:_Send",
        "group_id": 0,
        "is_eager": 0,
    }
    assert numpy[3]["annotation"] == "#edge_name=copy#"
    assert launched == (
        "gemm", 0, 1_000_000, {"correlation_id": 7, "context_id": "$$1", "group_id": 2},
    )  # fmt: skip
    assert sent[0] == "x/_1:_Send"
    assert sent[3] == {"group_id": 0, "is_eager": 0, "from": "x", "to": "y"}


def test_old_eager_ops_leave_an_event_of_their_own() -> None:
    assert [(name, stats.get("is_eager")) for name, _, _, stats in written(
        old_eager("Cast", us(0, 5)), old_op("a", "Cast", us(6, 1), group=3)
    )] == [
        ("EagerExecute: Cast", None),
        ("EagerLocalExecute: Cast", None),
        ("EagerKernelExecute", None),
        ("Cast:Cast", 1),
        ("a:Cast", 0),
    ]  # fmt: skip


def test_old_files_hold_derived_lines() -> None:
    (message,) = xspace(
        gpu(0, clock_rate=1)(
            old_steps(("train 500", us(0, 9)), ("train 501", us(10, 9))),
            old_ops(("a/MatMul:MatMul", us(1, 2))),
            old_scopes(("a", us(1, 2))),
        )
    ).planes
    assert [(x.id, x.name) for x in message.lines] == [
        (-559038737, "Steps"),
        (-559038734, "TensorFlow Ops"),
        (-559038735, "TensorFlow Name Scope"),
    ]
    second = message.lines[0].events[1]
    assert message.event_metadata[second.metadata_id].name == "1"
    assert told(message, second.stats)["step_name"] == ("ref_value", "train 501")
    assert told(message, message.stats) == {"clock_rate": ("int64_value", 1)}

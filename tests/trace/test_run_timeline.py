"""Timelines of sessions, whose times are microseconds since 1970."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import traceanalyzer as ta
from traceanalyzer.health import trace_health
from traceanalyzer.report.page import page_of
from traceanalyzer.report.text import plain
from traceanalyzer.run import Run

BEGAN_US = 1_500_000_000_000_000
TASK = "/job:localhost/replica:0/task:0"


def process(pid: int, name: str) -> dict[str, Any]:
    return {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}}


def ran(pid: int, node: str, op: str, at_us: float, took_us: float = 5) -> dict[str, Any]:
    args = {"name": node, "op": op, "input0": "before"}
    times = {"ts": BEGAN_US + at_us, "dur": took_us}
    return {"ph": "X", "cat": "Op", "name": op, "pid": pid, "tid": took_us, **times, "args": args}


CPU = [
    process(0, "Allocators"),
    process(1, f"{TASK}/device:CPU:0 Compute"),
    process(2, f"{TASK}/device:CPU:0 Tensors"),
    ran(1, "_SOURCE", "NoOp", 0),
    ran(1, "words/Lookup", "LookupTableFindV2", 10, 40),
    ran(1, "dense/MatMul", "MatMul", 12, 90),
    {"ph": "C", "cat": "Counter", "name": "cpu", "pid": 0, "ts": BEGAN_US, "args": {"cpu": 4}},
]
GPU = [
    *CPU,
    process(3, f"{TASK}/device:GPU:0 Compute"),
    process(5, "/device:GPU:0/stream:all Compute"),
    process(7, "/device:GPU:0/stream:13 Compute"),
    process(9, "/device:GPU:0/memcpy Compute"),
    ran(3, "conv/Conv2D", "Conv2D", 20, 4),
    ran(5, "conv/Conv2D", "Conv2D", 30, 200),
    ran(7, "conv/Conv2D", "Conv2D", 30, 200),
    ran(9, "edge_8_words/Lookup", "MEMCPYHtoD", 25, 2),
    ran(7, "edge_8_words/Lookup", "MEMCPYHtoD", 25, 2),
]


def written(folder: Path, events: list[Any], name: str = "timeline.json") -> Path:
    text = json.dumps({"traceEvents": events}).encode()
    file = folder / name
    file.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    return file


def placed(run: Run) -> dict[str, str]:
    return dict(zip(run.ops["name"], run.ops["placement"].astype(str), strict=True))


@pytest.mark.parametrize("name", ["timeline.json", "step-100.json.gz"])
def test_ops_devices_and_durations_are_read(tmp_path: Path, name: str) -> None:
    run = ta.load(written(tmp_path, CPU, name))

    assert placed(run) == {"words/Lookup": "cpu", "dense/MatMul": "cpu"}
    assert set(run.ops["placement_certainty"]) == {"certain"}
    took_us = dict(zip(run.ops["name"], run.ops["host_self_ps"] / 1e6, strict=True))
    assert took_us == {"words/Lookup": 40, "dense/MatMul": 90}
    assert not {"damaged", "impossible_times"} & {h.id for h in trace_health(run)}


@pytest.mark.parametrize("old", [False, True])
def test_kernels_and_copies_of_a_gpu_are_counted_once(tmp_path: Path, *, old: bool) -> None:
    text = json.dumps(GPU)
    text = text.replace("/device:GPU", "/gpu").replace("/device:CPU", "/cpu") if old else text
    run = ta.load(written(tmp_path, json.loads(text)))

    assert placed(run) == {
        "words/Lookup": "cpu",
        "dense/MatMul": "cpu",
        "conv/Conv2D": "gpu:0",
    }
    assert run.kernels["duration_ps"].tolist() == [200_000_000]
    (copy,) = run.transfers.to_dict("records")
    assert (copy["direction"], copy["producer_name"]) == ("h2d", "words/Lookup")


@pytest.mark.parametrize("events", [CPU, GPU])
def test_one_session_run_is_one_step_from_the_first_to_the_last_event(
    tmp_path: Path, events: list[Any]
) -> None:
    (step,) = ta.load(written(tmp_path, events)).steps.to_dict("records")

    assert step["name"] == "session run"
    assert step["kind"] == "regular"
    assert step["duration_ps"] == (220 if events is GPU else 92) * 1_000_000


def test_a_loop_does_not_make_several_runs(tmp_path: Path) -> None:
    run = ta.load(written(tmp_path, [*CPU, ran(1, "dense/MatMul", "MatMul", 200, 10)]))

    assert run.steps["duration_ps"].tolist() == [200_000_000]


def test_merged_runs_are_not_one_step(tmp_path: Path) -> None:
    later = [{**event, "ts": event["ts"] + 1000} for event in GPU if event["ph"] == "X"]
    run = ta.load(written(tmp_path, [*GPU, *later]))

    assert "session run" not in set(run.steps["name"])


def test_a_file_merged_from_runs_that_number_devices_differently(tmp_path: Path) -> None:
    run = ta.load(written(tmp_path, [*GPU, ran(3, "dense/MatMul", "MatMul", 900)]))

    assert placed(run)["dense/MatMul"] == "unknown"
    assert placed(run)["words/Lookup"] == "cpu"


def test_times_of_two_clocks_are_counted_on_the_first_screen(tmp_path: Path) -> None:
    other = [{**event, "ts": 7} for event in CPU if event.get("cat") == "Op"][:1]
    run = ta.load(written(tmp_path, [*CPU, *other]))
    answer = plain(page_of(ta.diagnose(run)).happened)

    assert "incomplete: left out 1 event" in answer
    assert len(run.ops) == len(placed(run)) == 2


@pytest.mark.parametrize("ts", [-5, 1e25, 10**30, None, "soon"])
def test_no_usable_time_is_an_error(tmp_path: Path, ts: object) -> None:
    events = [{**event, "ts": ts} if event.get("cat") == "Op" else event for event in CPU]

    with pytest.raises(ta.TraceAnalyzerError) as caught:
        ta.load(written(tmp_path, events))
    assert len(str(caught.value).splitlines()) == 1
    assert "3 " in str(caught.value)


def test_the_profilers_own_json_may_count_from_1970(tmp_path: Path) -> None:
    events = [
        process(1, "/host:CPU"),
        {"ph": "X", "pid": 1, "tid": 4, "name": "MatMul", "ts": BEGAN_US + 3, "dur": 7,
         "args": {"long_name": "dense/MatMul:MatMul"}},
    ]  # fmt: skip
    run = ta.load(written(tmp_path, events, "host.trace.json.gz"))

    assert run.ops["host_self_ps"].tolist() == [7_000_000]

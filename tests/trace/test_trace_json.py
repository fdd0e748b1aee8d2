import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus import CORPUS, needs_corpus, slow_but
from traceanalyzer.errors import TraceFormatError
from traceanalyzer.trace import trace_json
from traceanalyzer.trace.columns import Plane, Trace
from traceanalyzer.trace.discovery import TRACE_JSON, XPLANE, HostFile
from traceanalyzer.trace.files import read_host

PROCESS = {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": "/host:CPU"}}
THREAD = {"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "python"}}


def x(name: str, ts: float, dur: float, **args: str) -> dict[str, Any]:
    event = {"ph": "X", "pid": 1, "tid": 2, "name": name, "ts": ts, "dur": dur}
    return {**event, "args": args} if args else event


def document(*events: object) -> str:
    return json.dumps({"displayTimeUnit": "ns", "metadata": {}, "traceEvents": [*events, {}]})


def read(text: str | bytes, *, max_bytes: int | None = None) -> Trace:
    content = text.encode() if isinstance(text, str) else text
    return trace_json.read(memoryview(content), max_bytes=max_bytes)


def one(text: str) -> Plane:
    (plane,) = read(text).planes
    return plane


def names(plane: Plane) -> list[str]:
    return [plane.names[i] for i in plane.name_of]


def error(text: str | bytes) -> str:
    with pytest.raises(TraceFormatError) as caught:
        read(text)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


# What TensorFlow wrote.


def test_an_event_that_begins_a_step_loses_the_number_that_was_added() -> None:
    plane = one(
        document(
            PROCESS,
            x("train 109", 0, 2, step_name="train 109"),
            x("other 109", 1, 1, step_name="train 109"),
            x("Step", 3, 1, step_name="Step"),
        )
    )
    assert names(plane) == ["train", "other 109", "Step"]
    assert plane.strings("step_name").to_list() == ["train 109", "train 109", "Step"]


@pytest.mark.parametrize(
    ("us", "ps"),
    [
        ("133.09999999999999", 133_100_000),
        ("1e-6", 1),
        ("9600829.541123", 9_600_829_541_123),
        ("4611686018427.387", 4_611_686_018_427_387_000),
    ],
)
def test_times_are_exact_to_the_picosecond(us: str, ps: int) -> None:
    plane = one(document(PROCESS, x("e", 0.5, 0.25)).replace("0.5", us).replace("0.25", us))
    assert (plane.start_ps.tolist(), plane.duration_ps.tolist()) == ([ps], [ps])


# What it is not.


def test_cut_anywhere() -> None:
    text = document(PROCESS, THREAD, *(x(f"e{i}", i, 2, a="b") for i in range(9)))
    for end in range(text.index("[") + 1, len(text) - 1):
        assert "cut short" in error(text[:end])


def test_damage_between_events() -> None:
    text = document(PROCESS, x("e", 1, 2))
    assert "damaged" in error(text.replace('{"ph": "X"', '?{"ph": "X"'))
    assert "damaged" in error(text.replace("{}]", "[" * 100_000))


def test_another_programs_trace() -> None:
    named = {**PROCESS, "args": {"name": "python 4242"}}
    assert "a trace of another program" in error(document(named, x("e", 1, 2)))


# What is damaged.


@pytest.mark.parametrize(
    "change",
    [
        {"ts": None}, {"ts": True}, {"dur": []},
        {"name": 5}, {"pid": 1.5}, {"tid": {}}, {"tid": 2**64}, {"args": 3}, {"ph": 3},
    ],
)  # fmt: skip
def test_an_event_that_cannot_be_read_is_counted_and_the_next_is_read(
    change: dict[str, Any],
) -> None:
    trace = read(document(PROCESS, x("a", 1, 2) | change, "text", None, x("b", 1, 2)))
    assert names(trace.planes[0]) == ["b"]
    assert trace.damage is not None
    assert (trace.damage.places, trace.damage.events_kept) == (3, 1)
    assert trace.damage.bytes_lost > 0


@pytest.mark.parametrize("number", ["1e999999999", "1e400", "9e12"])
def test_numbers_that_no_clock_shows_take_no_memory(number: str) -> None:
    trace = read(document(PROCESS, x("a", 0.5, 1), x("b", 1, 2)).replace("0.5", number))
    assert names(trace.planes[0]) == ["b"]
    assert (trace.impossible_events, trace.damage) == (1, None)


@pytest.mark.parametrize("change", [{"ts": -1}, {"dur": -1}, {"dur": 1e300}])
def test_an_event_of_an_impossible_time_is_counted(change: dict[str, Any]) -> None:
    trace = read(document(PROCESS, x("a", 1, 2) | change, x("b", 1, 2)))
    assert names(trace.planes[0]) == ["b"]
    assert (trace.impossible_events, trace.damage) == (1, None)


def test_half_of_the_events_count_from_1970() -> None:
    late = [x(f"late {k}", 1.6e15 + k, 1) for k in range(4)]
    early = [x(f"early {k}", k, 1) for k in range(4)]
    trace = read(document(PROCESS, *early, *late))
    assert (trace.events, trace.impossible_events) == (4, 4)


# Any JSON, and any text.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inside: (
        st.lists(inside, max_size=4)
        | st.dictionaries(
            st.sampled_from(["ph", "pid", "tid", "ts", "dur", "name", "args", "long_name", "x"]),
            inside | st.sampled_from(["X", "M", "i", "process_name", "thread_name", "/host:CPU"]),
            max_size=6,
        )
    ),
    max_leaves=30,
)


@given(st.lists(JSON), st.booleans())
def test_any_events(events: list[Any], named: bool) -> None:  # noqa: FBT001 - hypothesis gives it
    text = json.dumps({"traceEvents": [PROCESS, *events] if named else events})
    with suppress(TraceFormatError):
        check(read(text))


def check(trace: Trace) -> None:
    for plane in trace.planes:
        assert len(names(plane)) == len(plane) == plane.lines.event_begin[-1]
        assert (plane.duration_ps >= 0).all()
        for stat in plane.stat_names.values():
            plane.strings(stat)


# Real files: the same run as xplane and as JSON.

PAIRS = sorted(CORPUS.glob("tf*/plugins/profile/*/*.trace.json.gz"))


def rows(plane: Plane) -> Counter[tuple[object, ...]]:
    """Events but those of derived lines, with what both formats tell of them."""
    found: Counter[tuple[object, ...]] = Counter()
    stats = [plane.strings(s).to_list() for s in ("group_id", "correlation_id", "annotation", "id")]
    columns = zip(
        plane.line_of.tolist(),
        plane.name_of.tolist(),
        plane.start_ps.tolist(),
        plane.duration_ps.tolist(),
        *stats,
        strict=True,
    )
    for line, name, start, duration, *values in columns:
        thread = plane.lines.name[line]
        if thread != "Steps":  # named by number in one, by step in the other
            display = plane.display_names[name]
            found[(thread, plane.names[name], display, start, duration, *values)] += 1
    return found


@needs_corpus
@pytest.mark.parametrize(
    "path",
    slow_but(lambda path: "2023_11_07_18_18_59" in path.parts, PAIRS),
    ids=lambda p: p.parent.name,
)
def test_json_and_xplane_of_a_run_agree(path: Path) -> None:
    xplane = path.with_name(path.name.replace(".trace.json.gz", ".xplane.pb"))
    full = read_host(HostFile(host="a", path=xplane, format=XPLANE))
    cut = read_host(HostFile(host="a", path=path, format=TRACE_JSON))
    assert cut.damage is None
    planes = {p.name: p for p in cut.planes}
    assert set(planes) == {p.name for p in full.planes}
    for plane in full.planes:
        more, less = rows(plane), rows(planes[plane.name])
        # Events of no duration, and those that TF 2.4 drew apart from their threads, are absent.
        absent = more - less
        assert {r[1] for r in absent if r[4]} <= {
            "ParallelMapConsume",
            "ParallelMapProduce",
            "PrefetchConsume",
            "PrefetchProduce",
        }
        # TF 2.6 drew what has no duration with a picosecond.
        assert {r[4] for r in less - more} <= {1}
        assert not any(r[4] for r in absent if r[1].endswith(":MatMul"))


def test_a_process_without_a_usable_time_is_named() -> None:
    late = {**PROCESS, "pid": 7, "args": {"name": "/device:GPU:0"}}
    trace = read(document(PROCESS, late, x("a", 1, 2), x("b", 2, 2), {**x("k", 1e30, 1), "pid": 7}))
    assert trace.emptied_planes == ("/device:GPU:0",)

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.errors import TraceFormatError, TraceTooLargeError
from traceanalyzer.trace import builder as module
from traceanalyzer.trace.builder import LARGEST_PS, TraceBuilder
from traceanalyzer.trace.columns import Damage
from traceanalyzer.trace.memory_need import report_bytes

VALUES = st.one_of(
    st.text(),
    st.integers(-(2**65), 2**65),
    st.floats(allow_nan=False),
)
EVENTS = st.lists(
    st.tuples(
        st.integers(0, 2),  # line
        st.text(max_size=4),  # name
        st.text(max_size=2),  # display name
        st.integers(0, 20),  # start
        st.integers(0, 20),  # duration
        st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES, max_size=3),
    ),
    max_size=20,
)


def test_a_small_trace() -> None:
    builder = TraceBuilder("trace.json")
    gpu = builder.plane("/device:GPU:0", 3)
    gpu.stat("clock_rate", 1590000)
    host = builder.plane("/host:CPU", 501)
    line = host.line(-7, "python")
    host.event(line, "a:A", 1000, 50, display_name="A", stats={"id": "-5", "ratio": 0.5, "n": 7})
    host.event(line, "b", 1010, 5)
    assert (len(gpu), len(host), builder.events) == (0, 2, 2)
    trace = builder.build(
        errors=("bad",),
        warnings=("mind",),
        hostnames=("h",),
        damage=Damage(bytes_lost=1, places=1, events_kept=2),
    )
    assert (trace.format, trace.errors, trace.warnings) == ("trace.json", ("bad",), ("mind",))
    assert (trace.hostnames, trace.events) == (("h",), 2)
    assert trace.damage is not None
    first, second = trace.planes
    assert (first.name, first.id, first.own) == ("/device:GPU:0", 3, {"clock_rate": "1590000"})
    assert (second.name, second.id, second.own) == ("/host:CPU", 501, {})
    assert (second.lines.id.tolist(), second.lines.name) == ([-7], ("python",))
    assert [second.names[i] for i in second.name_of] == ["a:A", "b"]
    assert [second.display_names[i] for i in second.name_of] == ["A", ""]
    assert second.strings("id").to_list() == ["-5", None]
    assert second.strings("ratio").to_list() == ["0.5", None]
    assert second.integers("n").values.tolist() == [7, 0]
    assert second.integers("id").values.tolist() == [-5, 0]
    assert not second.has_stat("clock_rate")


def test_an_empty_trace() -> None:
    trace = TraceBuilder("x").build()
    assert (trace.planes, trace.events, trace.damage) == ((), 0, None)


def test_names_may_come_after_events() -> None:
    builder = TraceBuilder("x")
    plane = builder.plane()
    line = plane.line(4)
    plane.event(line, "e", 0, 1)
    plane.name = "/host:CPU"
    plane.name_line(line, "python")
    (built,) = builder.build().planes
    assert (built.name, built.lines.name) == ("/host:CPU", ("python",))


def test_events_stand_after_what_encloses_them() -> None:
    builder = TraceBuilder("x")
    plane = builder.plane("p")
    later, earlier = plane.line(1), plane.line(2)
    for line, name, start, duration in (
        (earlier, "inner", 5, 2),
        (later, "c", 1, 1),
        (earlier, "outer", 5, 9),
        (earlier, "first", 0, 1),
    ):
        plane.event(line, name, start, duration, stats={"of": name})
    (built,) = builder.build().planes
    assert [built.names[i] for i in built.name_of] == ["c", "first", "outer", "inner"]
    assert built.strings("of").to_list() == ["c", "first", "outer", "inner"]
    assert built.lines.event_begin.tolist() == [0, 1, 4]


@given(st.lists(EVENTS, max_size=3))
def test_what_is_put_in_comes_out(planes: list[list[tuple]]) -> None:
    builder = TraceBuilder("x")
    for number, events in enumerate(planes):
        plane = builder.plane(str(number), number)
        plane.stat("number", number)
        lines = [plane.line(i, str(i)) for i in range(3)]
        for line, name, display, start, duration, stats in events:
            plane.event(lines[line], name, start, duration, display_name=display, stats=stats)
    trace = builder.build()
    for number, (plane, events) in enumerate(zip(trace.planes, planes, strict=True)):
        wanted = sorted(events, key=lambda e: (e[0], e[3], -e[4]))
        assert plane.own == {"number": str(number)}
        assert plane.line_of.tolist() == [e[0] for e in wanted]
        assert [plane.names[i] for i in plane.name_of] == [utf8(e[1]) for e in wanted]
        assert [plane.display_names[i] for i in plane.name_of] == [utf8(e[2]) for e in wanted]
        assert plane.start_ps.tolist() == [e[3] for e in wanted]
        assert plane.end_ps.tolist() == [e[3] + e[4] for e in wanted]
        for stat in "abc":
            assert plane.strings(stat).to_list() == [
                utf8(str(e[5][stat])) if stat in e[5] else None for e in wanted
            ]


def utf8(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def test_the_columns_are_of_the_decoders_types() -> None:
    builder = TraceBuilder("x")
    plane = builder.plane("p")
    plane.event(plane.line(1), "e", 0, 1, stats={"s": "t"})
    (built,) = builder.build().planes
    assert built.stats.id.dtype == np.int32
    assert built.stats.kind.dtype == np.uint8
    assert built.stats.value.dtype == np.uint64
    assert built.metadata_id.dtype == np.int32
    for column in (built.start_ps, built.duration_ps, built.stat_begin, built.lines.event_begin):
        assert column.dtype == np.int64


def test_long_strings_and_half_of_a_surrogate_pair() -> None:
    builder = TraceBuilder("x")
    plane = builder.plane("p")
    plane.event(plane.line(1), "x" * 100_000, 0, 1, stats={"s": "\ud800"})
    (built,) = builder.build().planes
    assert built.names[0] == "x" * 100_000
    assert built.strings("s").to_list() == ["?"]


@pytest.mark.parametrize("times", [(-1, 0), (0, -1), (LARGEST_PS + 1, 0), (0, LARGEST_PS + 1)])
def test_times_out_of_range_are_the_callers_fault(times: tuple[int, int]) -> None:
    plane = TraceBuilder("x").plane("p")
    with pytest.raises(ValueError, match="out of range"):
        plane.event(plane.line(1), "e", *times)


def test_the_largest_times_do_not_wrap() -> None:
    builder = TraceBuilder("x")
    plane = builder.plane("p")
    plane.event(plane.line(1), "e", LARGEST_PS, LARGEST_PS)
    assert builder.build().planes[0].end_ps[0] == 2 * LARGEST_PS


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PLANES", 2)
    monkeypatch.setattr(module, "MAX_LINES", 2)
    builder = TraceBuilder("x", max_bytes=report_bytes(10_000))
    plane = builder.plane("p")
    builder.plane("q")
    with pytest.raises(TraceFormatError, match="processes"):
        builder.plane("r")
    line = plane.line(1)
    plane.line(2)
    with pytest.raises(TraceFormatError, match="threads"):
        plane.line(3)
    while builder.events < 10:
        plane.event(line, "e", builder.events, 1, stats={"s": str(builder.events)})
    with pytest.raises(TraceTooLargeError, match="--max-memory"):
        plane.event(line, "e", 0, 1, stats={f"k{i}": f"v{i}" for i in range(20)})

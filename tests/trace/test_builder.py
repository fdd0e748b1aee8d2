from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.errors import TraceFormatError, TraceTooLargeError
from traceanalyzer.trace import builder as module
from traceanalyzer.trace.builder import LARGEST_PS, TraceBuilder
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

"""Which event encloses which, and what of its time is its own."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.tables.reading import host_plane
from tests.traces import decode, event, host, line, ps, us, xspace
from traceanalyzer.tables.nesting import in_line_order, innermost, self_durations


def parents(*lines: object, containers: str = "ABCDEFG") -> dict[str, str | None]:
    """Who encloses whom, by name; of events with the same name the last counts."""
    plane = host_plane(*lines)
    names = [plane.names[i] for i in plane.name_of.tolist()]
    flags = np.array([n in containers for n in names], np.bool_)
    found = innermost(plane, in_line_order(plane), flags)
    return {
        name: names[parent] if parent >= 0 else None
        for name, parent in zip(names, found.tolist(), strict=True)
    }


def test_the_innermost_container_of_each_event() -> None:
    assert parents(
        line("t")(
            event("A", us(0, 10))(
                event("B", us(1, 4))(event("x", us(2, 1))),
                event("C", us(5, 3))(event("y", us(5, 3))),
            ),
            event("z", us(11, 1)),
        ),
        line("other")(event("w", us(2, 1))),
    ) == {"A": None, "B": "A", "x": "B", "C": "A", "y": "C", "z": None, "w": None}


def test_what_is_no_container_encloses_nothing() -> None:
    assert parents(
        line("t")(event("A", us(0, 10))(event("x", us(1, 5))(event("B", us(2, 1))))),
    ) == {"A": None, "x": "A", "B": "A"}


def test_events_may_stand_in_any_order() -> None:
    space = xspace(
        host(
            line("t")(
                event("A", us(0, 10))(event("B", us(1, 4))(event("x", us(2, 1)))),
                event("C", us(20, 5))(event("y", us(21, 1))),
            )
        )
    )
    (told,) = space.planes[0].lines
    kept = list(told.events)
    del told.events[:]
    told.events.extend(kept[k] for k in (4, 2, 0, 3, 1))
    (plane,) = decode(space).planes
    names = [plane.names[i] for i in plane.name_of.tolist()]

    found = innermost(plane, in_line_order(plane), np.ones(len(plane), np.bool_))

    assert {
        n: names[p] if p >= 0 else None for n, p in zip(names, found.tolist(), strict=True)
    } == {
        "A": None,
        "B": "A",
        "x": "B",
        "C": None,
        "y": "C",
    }


def test_of_events_with_the_same_start_the_longer_encloses_the_shorter() -> None:
    space = xspace(host(line("t")(event("B", us(0, 4)), event("A", us(0, 10)))))
    (plane,) = decode(space).planes

    found = innermost(plane, in_line_order(plane), np.ones(2, np.bool_))

    assert found.tolist() == [1, -1]


def test_of_equal_spans_the_one_written_first_encloses_the_next() -> None:
    assert parents(line("t")(event("A", us(0, 5)), event("B", us(0, 5)))) == {"A": None, "B": "A"}


def test_an_event_without_duration_belongs_to_what_it_stands_in() -> None:
    assert parents(line("t")(event("A", us(0, 5))(event("x", us(2)), event("y", us(5))))) == {
        "A": None,
        "x": "A",
        "y": "A",
    }


def test_an_event_that_starts_where_another_ends_is_not_in_it() -> None:
    assert parents(line("t")(event("A", us(0, 5)), event("x", us(5, 1)))) == {"A": None, "x": None}


def test_several_lines_of_one_number_do_not_mix() -> None:
    assert parents(
        line("t", id=7)(event("A", us(0, 10))), line("t", id=7)(event("x", us(1, 1)))
    ) == {"A": None, "x": None}


def test_deep_nesting() -> None:
    inner = event("x", us(0, 1))
    for _ in range(300):
        inner = event("A", us(0, 1))(inner)
    plane = host_plane(line("t")(inner))

    found = innermost(plane, in_line_order(plane), np.ones(len(plane), np.bool_))

    assert found.tolist() == list(range(-1, 300))


def test_self_durations_leave_children_out_and_grandchildren_to_the_children() -> None:
    assert self_durations(np.array([10, 6, 2, 3]), np.array([-1, 0, 1, 0])).tolist() == [1, 4, 2, 3]


def test_a_self_duration_is_never_negative() -> None:
    assert self_durations(np.array([5, 9]), np.array([-1, 0])).tolist() == [0, 9]


@st.composite
def nested(draw: st.DrawFn, low: int = 0, high: int = 1000, depth: int = 0) -> list[tuple]:
    """Spans that nest and do not cross: (start, end, parent's position or None)."""
    spans: list[tuple] = []
    at = low
    while at < high and draw(st.booleans()):
        start = draw(st.integers(at, high))
        end = draw(st.integers(start, high))
        spans.append((start, end))
        if depth < 3 and end - start > 1:
            spans += draw(nested(start, end, depth + 1))
        at = max(end, at + 1)
    return spans


@given(nested())
def test_self_times_add_up_to_the_time_that_any_event_covers(spans: list[tuple]) -> None:
    plane = host_plane(line("t")(event("x", ps(a, b - a)) for a, b in spans))
    parent = innermost(plane, in_line_order(plane), np.ones(len(plane), np.bool_))

    own = self_durations(plane.duration_ps, parent)

    covered = {t for a, b in spans for t in range(a, b)}
    assert own.sum() == len(covered)

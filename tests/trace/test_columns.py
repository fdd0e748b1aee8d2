"""A trace's columns: names, stats on demand, and what stands for what is missing."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trace import encodings as wire_of
from tests.traces import NO_VALUE, Event, Value, decode, event, host, line, ref, uint, us, xspace
from traceanalyzer.trace.columns import Plane


def plane_of(*events: Event) -> Plane:
    (only,) = decode(xspace(host(line("t")(events)))).planes
    return only


def with_stats(*values: Value) -> Plane:
    """One event a value, of the stat `x`."""
    return plane_of(*(event("e", us(k), x=value) for k, value in enumerate(values)))


def plane_from(*parts: bytes) -> Plane:
    (only,) = decode(wire_of.plane(*parts)).planes
    return only


# --------------------------------------------------------------- events and names


@given(
    st.lists(st.one_of(st.integers(-2, 9), st.integers(-(2**63), 2**63 - 1)), max_size=8),
    st.lists(st.one_of(st.integers(-2, 9), st.integers(-(2**63), 2**63 - 1)), max_size=8),
)
def test_names_are_found_whatever_the_ids(keys: list[int], wanted: list[int]) -> None:
    wanted += keys
    only = plane_from(
        *(wire_of.event_metadata(key, wire_of.text(2, f"n{k}")) for k, key in enumerate(keys)),
        wire_of.line(*(wire_of.event(wire_of.number(1, key)) for key in wanted)),
    )
    last = {key: f"n{k}" for k, key in enumerate(keys)}
    assert [only.names[k] for k in only.name_of] == [last.get(key, "") for key in wanted]


# -------------------------------------------------------------------------- stats


def test_a_stat_of_any_kind_as_whole_numbers() -> None:
    values = [
        -5, uint(7), 2.9, -2.9, "12", ref("13"), b"14",
        "x", ref("y"), math.nan, math.inf, 2.0**62, 1e300, str(2**63), NO_VALUE,
    ]  # fmt: skip
    column = with_stats(*values).integers("x")
    assert column.values.tolist() == [-5, 7, 2, -2, 12, 13, 14, *[0] * 8]
    assert column.present.tolist() == [True] * 7 + [False] * 8


@pytest.mark.parametrize("value", ["", " ", " 1", "1_000", "\u0969", "9" * 5000, "1e3", "1\n"])
def test_text_that_is_no_number_has_none(value: str) -> None:
    assert not with_stats(value).integers("x").present.any()


def test_an_event_inherits_the_stats_of_its_metadata() -> None:
    about: dict[str, Value] = {"flops": 5, "category": "c"}
    only = plane_of(
        event("a", us(1), metadata_stats=about),
        event("a", us(2), metadata_stats=about, flops=7),
        event("b", us(3)),
        event("b", us(4), category="own"),
    )
    assert only.integers("flops").values.tolist() == [5, 7, 0, 0]
    assert only.integers("flops").present.tolist() == [True, True, False, False]
    assert only.strings("category").to_list() == ["c", "c", None, "own"]


def test_a_name_of_very_many_ids_takes_no_longer() -> None:
    # Id by id this would be 10**10 steps.
    ids = [wire_of.stat_metadata(key, "x") for key in range(10**5)]
    events = wire_of.event(wire_of.stat(wire_of.number(1, 77), wire_of.number(3, 5))) * 10**5
    column = plane_from(*ids, wire_of.line(events)).integers("x")
    assert column.present.all()
    assert (column.values == 5).all()


def test_a_long_text_that_very_many_events_inherit_takes_no_longer() -> None:
    # Event by event this would be 10**11 bytes.
    long = wire_of.message(5, wire_of.number(1, 1), wire_of.text(5, "x" * 10**6))
    only = plane_from(
        wire_of.event_metadata(1, long),
        wire_of.line(wire_of.event(wire_of.number(1, 1)) * 10**5),
        wire_of.stat_metadata(1, "x"),
    )
    column = only.strings("x")
    assert column.present.all()
    assert [len(value) for value in column.values] == [10**6]


_values = st.one_of(
    st.sampled_from(["", "a", "5"]),
    st.text(max_size=4),
    st.text(max_size=3).map(ref),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**64 - 1).map(uint),
    st.floats(),
)


def as_text(value: Value) -> str:
    return str(float(value)) if type(value) is float else str(value)


@given(st.lists(st.one_of(st.none(), _values), max_size=12))
def test_columns_hold_what_the_events_say(values: list[Value | None]) -> None:
    only = plane_of(
        *(event("e", us(k), stats={} if v is None else {"x": v}) for k, v in enumerate(values))
    )
    column = only.strings("x")
    assert column.to_list() == [None if v is None else as_text(v) for v in values]
    assert len(set(column.values)) == len(column.values)
    whole = only.integers("x")
    for k, value in enumerate(values):
        if isinstance(value, int):
            assert whole.present[k]
            assert int(whole.values[k]) % 2**64 == value % 2**64

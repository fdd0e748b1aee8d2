"""The reading of the wire format, function by function."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trace.encodings import event, line, number, plane, stat, tag, text, varint
from traceanalyzer.native import wire
from traceanalyzer.trace.xplane import decode


def uint8(content: bytes) -> np.ndarray:
    return np.frombuffer(content, np.uint8)


def positions(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def scan_space(content: bytes) -> tuple[int, ...]:
    return wire.scan_space(uint8(content), wire.Space.empty(0, 0))


def read_stat(content: bytes) -> tuple[int, int, int] | None:
    """Id, kind and value of a stat, whose bytes begin at 8; None where it cannot be read."""
    stats = decode(uint8(plane(line(event(stat(content)))))).planes[0].stats
    return (int(stats.id[0]), int(stats.kind[0]), int(stats.value[0])) if len(stats.id) else None


# --------------------------------------------------------------------------- fields


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b"\x80",  # cut
        b"\x80" * 9,
        b"\x80" * 10,  # ten bytes, and it goes on
        b"\xff" * 11 + b"\x00",
    ],
)
def test_a_varint_that_does_not_end_is_refused(encoded: bytes) -> None:
    assert read_stat(tag(3, 0) + encoded) is None


def test_bits_beyond_the_64th_are_dropped_as_protobuf_drops_them() -> None:
    assert read_stat(tag(3, 0) + b"\xff" * 9 + b"\x7f") == (0, wire.UINT64, 2**64 - 1)


@pytest.mark.parametrize("encoded", [b"\x00", b"\x02", b"\x80", tag(2**29, 0), b"\xff" * 10])
def test_a_field_number_out_of_range_is_no_tag(encoded: bytes) -> None:
    assert read_stat(encoded + b"\x00") is None
    assert read_stat(tag(2**29 - 1, 0) + b"\x00") == (0, 0, 0)


@pytest.mark.parametrize(
    ("encoded", "bounds"),
    [
        (b"\x00", (1, 1)),
        (b"\x02ab", (1, 3)),
        (b"\x82\x00ab", (2, 4)),
        # What cannot be read is empty.
        (b"\x03ab", (0, 0)),
        (b"\x80", (0, 0)),
        # Lengths that would lead back, were they taken for signed numbers.
        (varint(2**64 - 1) + b"ab", (0, 0)),
        (varint(2**63) + b"ab", (0, 0)),
        (varint(2**63 - 1) + b"ab", (0, 0)),
    ],
)
def test_length(encoded: bytes, bounds: tuple[int, int]) -> None:
    begin, end = wire.string_bounds(uint8(encoded), positions(0))
    assert (begin[0], end[0]) == bounds


@pytest.mark.parametrize(
    ("content", "counted"),
    [
        (b"", (0, 0, 0, 0)),
        (plane() + text(4, "host") + plane(number(1, 1)), (2, 1, 12, 0)),
        (text(2, "e") + text(3, "w") + text(5, "?"), (0, 2, 9, 0)),
        (number(1, 5) + number(9, 1), (0, 0, 4, 0)),  # a plane is never a number
        (plane() + b"\x0a", (1, 0, 2, wire.OVERRUN)),
        (plane() + b"\x0a\x80", (1, 0, 2, wire.OVERRUN)),
        (plane() + b"\x0a\x05abc", (1, 0, 2, wire.OVERRUN)),
        (plane() + b"\x0a" + b"\xff" * 11, (1, 0, 2, wire.UNREADABLE)),
        (plane() + b"\x00", (1, 0, 2, wire.UNREADABLE)),
        (plane() + b"\x0b\x0c", (1, 0, 2, wire.UNREADABLE)),
        (b"hello, world", (0, 0, 2, wire.UNREADABLE)),
    ],
)
def test_scan_space(content: bytes, counted: tuple[int, int, int, int]) -> None:
    assert scan_space(content) == counted


# -------------------------------------------------------------------------- damage


@pytest.mark.parametrize(
    ("parts", "aggregated", "wide"),
    [
        ((event(number(1, 2**31 - 1), stat(number(1, 2**31 - 1))),), 0, False),
        ((event(number(1, 2**31)),), 0, True),
        ((event(number(1, -(2**31))),), 0, False),
        ((event(number(1, -(2**31) - 1)),), 0, True),
        ((event(stat(number(1, 2**31))),), 0, True),
        ((event(number(5, 1)), event(number(5, 2), number(2, 1))), 2, False),
    ],
)
def test_a_line_tells_how_wide_its_columns_must_be(
    parts: tuple[bytes, ...],
    aggregated: int,
    wide: bool,  # noqa: FBT001
) -> None:
    content = b"".join(parts)
    bounds = positions(0), positions(len(content))
    found = wire.scan_lines(uint8(content), range(1), bounds, positions(0), positions(0))
    assert found == (aggregated, wide, 0, 0)


# ------------------------------------------------------------------------- strings


def interned(strings: list[bytes]) -> tuple[list[int], list[bytes]]:
    buffer, at = bytearray(), []
    for string in strings:
        at.append(len(buffer))
        buffer += varint(len(string)) + string
    b = uint8(bytes(buffer))
    codes, first = wire.intern_strings(b, 0, positions(*at))
    begin, end = wire.string_bounds(b, first)
    return codes.tolist(), [b[i:j].tobytes() for i, j in zip(begin, end, strict=True)]


@given(st.lists(st.binary(max_size=3), max_size=60))
def test_interned_strings_are_those_that_went_in(strings: list[bytes]) -> None:
    codes, distinct = interned(strings)
    assert [distinct[c] for c in codes] == strings
    assert distinct == list(dict.fromkeys(strings))


def test_interning_many_distinct_strings_grows_the_table() -> None:
    strings = [b"%d" % (k % 70_000) for k in range(100_000)]
    codes, distinct = interned(strings)
    assert [distinct[c] for c in codes] == strings
    assert len(distinct) == 70_000


@pytest.mark.parametrize(
    ("wanted", "found"),
    [([2], [2, 7, -1, 4]), ([1, 3], [0, 7, 3, 9]), ([-5, 2, 3, 2**40], [2, 7, 3, 4])],
)
@pytest.mark.parametrize("width", [np.int32, np.int64])
def test_find_stat_takes_the_last_and_leaves_the_others(
    wanted: list[int], found: list[int], width: type[np.signedinteger]
) -> None:
    rows = positions(-1, 7, -1, 9)
    stat_id = np.array([1, 2, 2, 3, 2], width)
    bounds = positions(0, 3, 3, 4), positions(3, 3, 4, 5)
    wire.find_stat(bounds, stat_id, positions(*wanted), rows)
    assert rows.tolist() == found

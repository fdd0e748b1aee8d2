"""The reading of the wire format, function by function."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trace.encodings import (
    event,
    event_metadata,
    line,
    message,
    number,
    own_stat,
    plane,
    stat,
    stat_metadata,
    tag,
    text,
    varint,
)
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


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**32, 2**63 - 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("padding", [0, 1, 10])
def test_varint(value: int, padding: int) -> None:
    assert read_stat(tag(3, 0) + varint(value, padding)) == (0, wire.UINT64, value)


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
    ("encoded", "wire_type", "is_read"),
    [
        (b"\x80\x01", 0, True),
        (b"\x80", 0, False),
        (b"12345678", 1, True),
        (b"1234567", 1, False),
        (b"\x01x", 2, True),
        (b"\x02x", 2, False),
        (b"1234", 5, True),
        (b"123", 5, False),
        (b"\x0b\x0c", 3, False),  # groups
        (b"\x0c", 4, False),
        (b"\x00", 6, False),  # no such types
        (b"\x00", 7, False),
    ],
)
def test_an_unknown_field_is_stepped_over(encoded: bytes, wire_type: int, is_read: bool) -> None:  # noqa: FBT001
    found = read_stat(tag(9, wire_type) + encoded)
    assert found == ((0, 0, 0) if is_read else None)


def test_fixed64_is_little_endian() -> None:
    encoded = tag(2, 1) + b"\x01\x02\x00\x00\x00\x00\x00\x80"
    assert read_stat(encoded) == (0, wire.DOUBLE, 0x8000_0000_0000_0201)


@pytest.mark.parametrize(
    ("parts", "read"),
    [
        ((), (0, 0, 0)),
        ((number(1, 5),), (5, 0, 0)),
        ((number(1, -5), number(4, -1)), (-5, wire.INT64, 2**64 - 1)),
        ((number(3, 7), number(1, 5)), (5, wire.UINT64, 7)),
        ((number(7, 9),), (0, wire.REF, 9)),
        # Of the oneof the last counts.
        ((number(3, 7), number(4, 8)), (0, wire.INT64, 8)),
        ((tag(2, 1) + b"\0" * 8, number(4, 8)), (0, wire.INT64, 8)),
        ((number(4, 8), tag(2, 1) + b"\1" + b"\0" * 7), (0, wire.DOUBLE, 1)),
        # A string is where its length stands.
        ((text(5, "ab"),), (0, wire.STRING, 9)),
        ((number(1, 1), text(6, "ab")), (1, wire.BYTES, 11)),
        # Other types make it another field.
        ((number(5, 1), number(2, 1), text(3, "ab"), tag(4, 5) + b"1234"), (0, 0, 0)),
        ((text(1, "a"), number(8, 1)), (0, 0, 0)),
    ],
)
def test_stat(parts: tuple[bytes, ...], read: tuple[int, int, int]) -> None:
    assert read_stat(b"".join(parts)) == read


@pytest.mark.parametrize(
    "content", [b"\x08", b"\x08\x80", b"\x11123", b"\x2a\x05a", b"\x0f", b"\x00"]
)
def test_a_broken_stat_is_none(content: bytes) -> None:
    assert read_stat(content) is None


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

BROKEN = b"\x07"  # type 7 does not exist
GOOD = plane(
    text(2, "p"),
    line(number(1, 1), event(number(1, 1)), event(number(1, 2), stat(number(1, 3)))),
    event_metadata(1, text(2, "e"), message(5, number(1, 2)), number(6, 4)),
    stat_metadata(1, "s"),
    own_stat(number(1, 1), number(3, 5)),
    line(event()),
)


def walk_planes(content: bytes) -> tuple[tuple[int, ...], int]:
    """Counts of one plane's walk, and where the plane ends after it."""
    begin, end = positions(0), positions(len(content))
    counts = wire.walk_planes(uint8(content), begin, end, wire.PlaneTables.empty())
    return counts, int(end[0])


def test_walk_planes_counts() -> None:
    content = GOOD[2:]
    counts, end = walk_planes(content)
    assert counts == (2, 1, 1, 2, 0, 0)
    assert end == len(content)


@pytest.mark.parametrize(
    "broken",
    [
        BROKEN,
        b"\x08" + b"\xff" * 11,
        message(4, BROKEN),
        message(4, message(2, BROKEN)),
        message(4, message(2, message(5, BROKEN))),
        message(4, message(2, b"\x30")),
        message(4, b"\x12\x05"),
        message(5, BROKEN),
        message(5, message(2, BROKEN)),
        message(5, b"\x12\x05"),
        own_stat(BROKEN),
        b"\x1a\x7f",
    ],
)
def test_a_plane_ends_at_its_first_broken_field(broken: bytes) -> None:
    before = GOOD[2:]
    counts, end = walk_planes(before + broken + before)
    # What follows is not counted either: the walk that fills the columns will not get there.
    assert counts == (2, 1, 1, 2, len(broken) + len(before), 1)
    assert end == len(before)


@pytest.mark.parametrize(
    "broken",
    [BROKEN, event(BROKEN), event(b"\x08"), event(stat(BROKEN)), event(b"\x22\x7f"), b"\x22"],
)
def test_a_line_ends_at_its_first_broken_event(broken: bytes) -> None:
    sound = event(number(1, 1)) + event(stat(number(1, 1)), stat())
    content = sound + broken + sound + sound
    begin = positions(0, len(content) - len(sound))
    end = positions(len(content) - len(sound), len(content))
    events, stats = positions(0, 0), positions(0, 0)
    _, _, lost, places = wire.scan_lines(uint8(content), range(2), (begin, end), events, stats)
    assert events.tolist() == [2, 2]
    assert stats.tolist() == [2, 2]
    assert (lost, places) == (len(broken) + len(sound), 1)
    assert end.tolist() == [len(sound), len(content)]


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


def test_a_long_string_is_read_whole() -> None:
    assert interned([b"x" * 300, b"x" * 299, b"x" * 300])[0] == [0, 1, 0]


def test_string_bounds() -> None:
    b = uint8(b"\x00\x02ab" + varint(200) + b"c" * 200)
    begin, end = wire.string_bounds(b, positions(0, 1, 4, -1))
    assert begin.tolist() == [1, 2, 6, 0]
    assert end.tolist() == [1, 4, 206, 0]


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

"""The compiled walk over the wire format, function by function."""

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
from traceanalyzer.trace import wire

# What `wire` does within its own module; tested here, since nothing shows it from outside.
from traceanalyzer.trace.wire import _fixed64, _message, _skip, _stat, _tag, _varint

SEED = np.uint64(0)
COUNT = False  # what a walk does: count, not fill


def uint8(content: bytes) -> np.ndarray:
    array = np.frombuffer(content, np.uint8)
    array.flags.writeable = False
    return array


def positions(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**32, 2**63 - 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("padding", [0, 1, 10])
def test_varint(value: int, padding: int) -> None:
    encoded = varint(value, padding)
    assert _varint(uint8(encoded), 0, len(encoded)) == (value, len(encoded))


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
    assert _varint(uint8(encoded), 0, len(encoded))[1] == -1


def test_a_varint_does_not_look_past_the_end_it_is_given() -> None:
    assert _varint(uint8(b"\x80\x01"), 0, 1)[1] == -1
    assert _varint(uint8(b"\x05"), 1, 1)[1] == -1


def test_bits_beyond_the_64th_are_dropped_as_protobuf_drops_them() -> None:
    encoded = b"\xff" * 9 + b"\x7f"
    assert _varint(uint8(encoded), 0, 10) == (2**64 - 1, 10)


@pytest.mark.parametrize(
    ("encoded", "field", "wire_type"),
    [(b"\x0a", 1, 2), (b"\x08", 1, 0), (b"\x21", 4, 1), (tag(2**29 - 1, 5), 2**29 - 1, 5)],
)
def test_tag(encoded: bytes, field: int, wire_type: int) -> None:
    assert _tag(uint8(encoded), 0, len(encoded)) == (field, wire_type, len(encoded))


@pytest.mark.parametrize("encoded", [b"", b"\x00", b"\x02", b"\x80", tag(2**29, 0), b"\xff" * 10])
def test_a_field_number_out_of_range_is_no_tag(encoded: bytes) -> None:
    assert _tag(uint8(encoded), 0, len(encoded))[2] == -1


@pytest.mark.parametrize(
    ("encoded", "bounds"),
    [
        (b"\x00", (1, 1)),
        (b"\x02ab", (1, 3)),
        (b"\x82\x00ab", (2, 4)),
        (b"\x03ab", (-1, -1)),
        (b"", (-1, -1)),
        (b"\x80", (-1, -1)),
        # Lengths that would lead back, were they taken for signed numbers.
        (varint(2**64 - 1) + b"ab", (-1, -1)),
        (varint(2**63) + b"ab", (-1, -1)),
        (varint(2**63 - 1) + b"ab", (-1, -1)),
    ],
)
def test_message(encoded: bytes, bounds: tuple[int, int]) -> None:
    assert _message(uint8(encoded), 0, len(encoded)) == bounds


@pytest.mark.parametrize(
    ("encoded", "wire_type", "after"),
    [
        (b"\x80\x01", 0, 2),
        (b"\x80", 0, -1),
        (b"12345678", 1, 8),
        (b"1234567", 1, -1),
        (b"\x01x", 2, 2),
        (b"\x02x", 2, -1),
        (b"1234", 5, 4),
        (b"123", 5, -1),
        (b"\x0b\x0c", 3, -1),  # groups
        (b"\x0c", 4, -1),
        (b"\x00", 6, -1),  # no such types
        (b"\x00", 7, -1),
    ],
)
def test_skip(encoded: bytes, wire_type: int, after: int) -> None:
    assert _skip(uint8(encoded), 0, len(encoded), wire_type) == after


def test_fixed64_is_little_endian() -> None:
    assert _fixed64(uint8(b"xx\x01\x02\x00\x00\x00\x00\x00\x80"), 2) == 0x8000_0000_0000_0201


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
        ((text(5, "ab"),), (0, wire.STRING, 1)),
        ((number(1, 1), text(6, "ab")), (1, wire.BYTES, 3)),
        # Other types make it another field.
        ((number(5, 1), number(2, 1), text(3, "ab"), tag(4, 5) + b"1234"), (0, 0, 0)),
        ((text(1, "a"), number(8, 1)), (0, 0, 0)),
    ],
)
def test_stat(parts: tuple[bytes, ...], read: tuple[int, int, int]) -> None:
    content = b"".join(parts)
    assert _stat(uint8(content), 0, len(content)) == (*read, True)


@pytest.mark.parametrize(
    "content", [b"\x08", b"\x08\x80", b"\x11123", b"\x2a\x05a", b"\x0f", b"\x00"]
)
def test_a_broken_stat_says_so(content: bytes) -> None:
    assert not _stat(uint8(content), 0, len(content))[3]


def scan_space(content: bytes) -> tuple[int, int, int, int]:
    none = np.empty(0, np.int64)
    counted: tuple[int, int, int, int] = wire.scan_space(
        uint8(content), COUNT, none, none, np.empty(0, np.uint8), none
    )
    return counted


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
    none = np.empty(0, np.int64)
    columns = [(none,) * n for n in (7, 8, 6, 2)]
    stats = (none, np.empty(0, np.uint8), np.empty(0, np.uint64))
    counts = wire.walk_planes(uint8(content), COUNT, begin, end, *columns, stats, none)
    return counts, int(end[0])


def test_walk_planes_counts() -> None:
    content = GOOD[2:]
    counts, end = walk_planes(content)
    assert counts == (2, 1, 1, 2, 1, 0, 0)
    assert end == len(content)


@pytest.mark.parametrize(
    "broken",
    [
        BROKEN,
        b"\x08" + b"\xff" * 11,
        message(4, BROKEN),
        message(4, message(2, BROKEN)),
        message(4, message(2, message(5, BROKEN))),
        message(4, message(2, message(6, b"\x80"))),
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
    assert counts == (2, 1, 1, 2, 1, len(broken) + len(before), 1)
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
    _, _, lost, places = wire.scan_lines(uint8(content), 0, 2, begin, end, events, stats)
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
    end = positions(len(content))
    found = wire.scan_lines(uint8(content), 0, 1, positions(0), end, positions(0), positions(0))
    assert found == (aggregated, wide, 0, 0)


# ------------------------------------------------------------------------- strings


def interned(strings: list[bytes]) -> tuple[list[int], list[bytes]]:
    buffer, at = bytearray(), []
    for string in strings:
        at.append(len(buffer))
        buffer += varint(len(string)) + string
    codes, first = np.empty(len(at), np.int32), np.empty(len(at), np.int64)
    b = uint8(bytes(buffer))
    n = wire.intern_strings(b, SEED, positions(*at), codes, first)
    return codes.tolist(), [wire.string_at(b, int(p)) for p in first[:n]]


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
    begin, end = np.empty(4, np.int64), np.empty(4, np.int64)
    wire.string_bounds(b, positions(0, 1, 4, -1), begin, end)
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
    wire.find_stat(positions(0, 3, 3, 4), positions(3, 3, 4, 5), stat_id, positions(*wanted), rows)
    assert rows.tolist() == found

"""Numbers and strings of the wire format that no trace of the other tests has."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.trace.encodings import event, line, plane, stat, tag, varint
from traceanalyzer.native import wire
from traceanalyzer.trace.xplane import decode


def uint8(content: bytes) -> np.ndarray:
    return np.frombuffer(content, np.uint8)


def test_bits_beyond_the_64th_are_dropped_as_protobuf_drops_them() -> None:
    too_long = tag(3, 0) + b"\xff" * 9 + b"\x7f"
    stats = decode(uint8(plane(line(event(stat(too_long)))))).planes[0].stats
    assert (stats.kind[0], stats.value[0]) == (wire.UINT64, 2**64 - 1)


def interned(strings: list[bytes]) -> tuple[list[int], list[bytes]]:
    buffer, at = bytearray(), []
    for string in strings:
        at.append(len(buffer))
        buffer += varint(len(string)) + string
    b = uint8(bytes(buffer))
    codes, first = wire.intern_strings(b, 0, np.array(at, np.int64))
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

"""What the decoder takes of memory, on recorded and on hostile files, and where it stops."""

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.trace import encodings as wire_of
from tests.trace.test_xplane import _no_hang, content_of, recorded  # noqa: F401  # a fixture
from tests.traces import decode
from traceanalyzer.errors import TraceFormatError, TraceTooLargeError
from traceanalyzer.trace import xplane


def in_line(*parts: bytes) -> bytes:
    return wire_of.plane(wire_of.line(*parts))


WIDE = wire_of.number(1, 2**40)  # an id that makes every id take 64 bits
MILLION = 1_000_000


def numbered(field: int, count: int, *value: bytes) -> bytes:
    """Entries of a map with keys of their own, which take most to keep."""
    return b"".join(
        wire_of.message(field, wire_of.number(1, 10**7 + k), *value) for k in range(count)
    )


# Each makes the most of what a byte of the file can cost; of so many as are let in, a part.
HOSTILE: dict[str, Callable[[int], bytes]] = {
    "empty events": lambda part: in_line(b"\x22\x00" * (2 * MILLION // part)),
    "aggregated events": lambda part: in_line(b"\x22\x02\x28\x03" * (MILLION // part)),
    "events with wide ids": lambda part: in_line(
        wire_of.event(WIDE), b"\x22\x00" * (2 * MILLION // part)
    ),
    "all at once": lambda part: in_line(
        wire_of.event(WIDE, wire_of.number(5, 2)), b"\x22\x00" * (2 * MILLION // part)
    ),
    "empty stats": lambda part: in_line(wire_of.event(b"\x22\x00" * (2 * MILLION // part))),
    "wide stats": lambda part: in_line(
        wire_of.event(wire_of.stat(WIDE), b"\x22\x00" * (2 * MILLION // part))
    ),
    "events with an empty stat": lambda part: in_line(b"\x22\x02\x22\x00" * (MILLION // part)),
    "empty lines": lambda part: wire_of.plane(b"\x1a\x00" * (xplane.MAX_LINES // part)),
    "lines with a name": lambda part: wire_of.plane(
        wire_of.line(wire_of.text(2, "ab")) * (250_000 // part)
    ),
    "empty event metadata": lambda part: wire_of.plane(b"\x22\x00" * (2 * MILLION // part)),
    "empty stat metadata": lambda part: wire_of.plane(b"\x2a\x00" * (2 * MILLION // part)),
    "stat metadata": lambda part: wire_of.plane(numbered(5, 250_000 // part)),
    "stat metadata with a name": lambda part: wire_of.plane(
        numbered(5, 250_000 // part, wire_of.message(2, wire_of.text(2, "ab")))
    ),
    "stats of a plane": lambda part: wire_of.plane(b"\x32\x00" * (2 * MILLION // part)),
    "stats of metadata": lambda part: wire_of.plane(
        wire_of.event_metadata(1, b"\x2a\x00" * (2 * MILLION // part))
    ),
    "empty planes": lambda part: b"\x0a\x00" * (xplane.MAX_PLANES // part),
    "planes with lines": lambda part: (
        wire_of.plane(b"\x1a\x00" * 64) * (xplane.MAX_PLANES // 4 // part)
    ),
    "hostnames": lambda part: b"\x22\x00" * (xplane.MAX_STRINGS // part),
}
hostile = pytest.mark.parametrize("name", HOSTILE)
in_part = pytest.mark.parametrize("part", [pytest.param(1, marks=pytest.mark.slow), 32])


def peak_bytes(content: NDArray[np.uint8], max_bytes: int | None = None) -> int:
    """The most memory that decoding takes at a time, that of the content left out."""
    gc.collect()
    tracemalloc.start()
    try:
        xplane.decode(content, max_bytes=max_bytes)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def _without_garbage() -> Iterator[None]:
    """Leave what other tests have made out of each collection of garbage: TensorFlow is much."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("_without_garbage")
@recorded
def test_recorded_traces_take_four_times_their_size(path: Path) -> None:
    content = np.frombuffer(content_of(path), np.uint8)
    # The smallest file here has 7 kB. Planes and threads are Python objects, 3 kB a plane, whatever
    # the events: this much does not grow with the file.
    constant = 64_000
    try:
        assert peak_bytes(content) <= 4 * len(content) + constant
    except TraceFormatError as error:
        assert "cut short" in str(error)  # noqa: PT017  # a damaged file is in the corpus


@pytest.mark.usefixtures("_without_garbage")
@in_part
@hostile
def test_hostile_files_take_bounded_memory(name: str, part: int) -> None:
    content = np.frombuffer(HOSTILE[name](part), np.uint8)
    taken = peak_bytes(content)
    assert taken <= 64e6 / part + 40 * len(content)
    # What it takes is what it said it would take, or less.
    with pytest.raises(TraceTooLargeError, match="--max-memory"):
        xplane.decode(content, max_bytes=int(0.95 * taken))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\x0a\x00" * (xplane.MAX_PLANES + 1), "planes"),
        (b"\x0a\x04\x1a\x00\x1a\x00" * (xplane.MAX_PLANES + 1), "planes"),
        (wire_of.plane(b"\x1a\x00" * (xplane.MAX_LINES + 1)), "lines"),
        (b"\x12\x00" * (xplane.MAX_STRINGS + 1), "errors, warnings, and hostnames"),
    ],
)
def test_more_than_any_profile_has_is_refused(content: bytes, what: str) -> None:
    with pytest.raises(TraceFormatError, match=rf"^the file has [\d,]+ {what}"):
        decode(content)


def test_positions_beyond_4_gib_are_right(tmp_path: Path) -> None:
    """Of a file of 15 GiB, all holes but for 300 bytes."""
    gap = 2**32 + 5
    path = tmp_path / "host.xplane.pb"
    parts = [
        wire_of.plane(wire_of.text(2, "first"), wire_of.line(wire_of.event())),
        wire_of.tag(15, 2) + wire_of.varint(gap),
        gap,
        wire_of.plane(wire_of.text(2, "second"), wire_of.line(wire_of.event(), wire_of.event())),
    ]
    in_event = [wire_of.tag(15, 2) + wire_of.varint(gap), gap]
    late_stat = wire_of.stat(wire_of.number(1, 1), wire_of.text(5, "far"))
    inner = [
        wire_of.event_metadata(3, wire_of.text(2, "early")),
        *_nested(3, [
            wire_of.event(wire_of.number(1, 3)),
            *_nested(4, [wire_of.number(1, 4), *in_event, late_stat, wire_of.number(2, 7)]),
        ]),
        wire_of.tag(14, 2) + wire_of.varint(gap),
        gap,
        wire_of.event_metadata(4, wire_of.text(2, "late")),
        wire_of.stat_metadata(1, "s"),
        wire_of.own_stat(wire_of.number(1, 1), wire_of.text(5, "own")),
        wire_of.text(2, "third"),
    ]  # fmt: skip
    parts += [*_nested(1, inner), wire_of.text(4, "host")]
    with path.open("wb") as file:
        for part in parts:
            if isinstance(part, int):
                file.seek(part, 1)
            else:
                file.write(part)
    assert path.stat().st_size > 3 * gap

    trace = xplane.decode(np.memmap(path, np.uint8, mode="r"))
    assert [p.name for p in trace.planes] == ["first", "second", "third"]
    assert [len(p) for p in trace.planes] == [1, 2, 2]
    third = trace.planes[2]
    assert [third.names[k] for k in third.name_of] == ["early", "late"]
    assert third.start_ps.tolist() == [0, 7]
    assert third.strings("s").to_list() == [None, "far"]
    assert third.own == {"s": "own"}
    assert trace.damage is None


def _nested(field: int, parts: list[bytes | int]) -> list[bytes | int]:
    """A message of parts, some of which are holes."""
    size = sum(part if isinstance(part, int) else len(part) for part in parts)
    return [wire_of.tag(field, 2) + wire_of.varint(size), *parts]

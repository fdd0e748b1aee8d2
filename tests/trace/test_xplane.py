"""The decoder against protobuf's own parser, also on damaged input."""

import faulthandler
import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.corpus import CORPUS, slow_but
from tests.trace import encodings as wire_of
from tests.trace.oracle import told_by_decoder, told_by_protobuf, use
from tests.traces import (
    NO_VALUE,
    decode,
    event,
    gpu,
    host,
    kernel,
    line,
    metadata,
    op,
    plane,
    ref,
    stream,
    task_environment,
    uint,
    us,
    xspace,
)
from tests.xspace_proto import XSpace
from traceanalyzer.errors import TraceFormatError
from traceanalyzer.trace.columns import Trace
from traceanalyzer.trace.message import fields

HERE = Path(__file__).parents[2]
SAMPLES = HERE / "sample_traces"
RECORDED = sorted(
    path
    for folder in (SAMPLES, CORPUS)
    for suffix in ("xplane.pb", "xplane.pb.gz")
    for path in folder.rglob(f"*.{suffix}")
)
recorded = pytest.mark.parametrize(
    "path",
    slow_but(
        lambda path: path.stat().st_size < 100_000 or "2023_11_07_18_18_59" in path.parts, RECORDED
    )
    or [pytest.param(None, marks=pytest.mark.skip("no recorded trace is here"))],
    ids=lambda path: (
        path and "/".join(path.parts[-1:] if SAMPLES in path.parents else path.parts[-5:])
    ),
)
drawn = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.large_base_example])

# A small trace with all there is in one.
SMALL = xspace(
    host(
        line("python", at_ns=33_000, id=-5)(
            event("train", us(0, 100), step_num=7, text="t", reference=ref("r"), half=0.5)(
                op("dense/MatMul", "MatMul", us(10, 5)),
                event("bytes", us(20, 8), raw=b"\xff\x00", unsigned=uint(2**63), none=NO_VALUE),
            )
        ),
        line("tf_Compute/1")(event("aggregate", us(0, 9), occurrences=3)),
    ),
    gpu(0)(
        stream(13, "Compute")(kernel("gemm", us(12, 3), op="dense/MatMul:MatMul", correlation=7))
    ),
    plane("/host:metadata")(metadata("jit_f", stats={"Hlo Proto": b"\x08"})),
    task_environment(),
    errors=["an error"],
    warnings=["a warning"],
).SerializeToString(deterministic=True)


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    """End the process with a traceback: what hangs in native code hears no signal."""
    faulthandler.dump_traceback_later(300, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def content_of(path: Path) -> bytes:
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == ".gz" else content


def decode_or_refuse(content: bytes) -> Trace | None:
    """A trace that can be used throughout, or None for a `TraceFormatError` of one line."""
    try:
        trace = decode(content)
    except TraceFormatError as error:
        assert "\n" not in str(error)  # noqa: PT017  # either outcome is right
        return None
    use(trace)
    return trace


# -------------------------------------------------------------- as protobuf reads it


@recorded
def test_recorded_traces_are_read_as_protobuf_reads_them(path: Path) -> None:
    content = content_of(path)
    try:
        space = XSpace.FromString(content)
    except DecodeError:
        with pytest.raises(TraceFormatError):
            decode(content)
        return
    trace = decode(content)
    assert trace.damage is None
    assert trace.events == sum(len(x.events) for p in space.planes for x in p.lines)
    # Plane by plane: pytest would take minutes to tell the difference of all at once.
    by_decoder, by_protobuf = told_by_decoder(trace), told_by_protobuf(space)
    assert by_decoder[:2] == by_protobuf[:2]
    for ours, theirs in zip(by_decoder.planes, by_protobuf.planes, strict=True):
        same = ours == theirs
        assert same, ours["name"]


@drawn
@given(wire_of.XSPACES)
def test_any_space_is_read_as_protobuf_reads_it(content: bytes) -> None:
    space = XSpace.FromString(content)
    if not any((space.planes, space.hostnames, space.errors, space.warnings)):
        # Protobuf takes any bytes with field numbers for a space; a space holds something of its.
        assert decode_or_refuse(content) is None or not content
        return
    trace = decode(content)
    assert trace.damage is None
    assert told_by_decoder(trace) == told_by_protobuf(space)
    use(trace)


# ---------------------------------------------------------------------------- damage


def test_every_prefix_is_a_trace_or_refused() -> None:
    ends = {0, *(end for *_, end in fields(memoryview(SMALL)))}
    for end in range(len(SMALL)):
        trace = decode_or_refuse(SMALL[:end])
        # Cut between planes it is a shorter trace; cut within one, its length tells.
        assert (trace is not None) == (end in ends), end
        if trace is not None:
            assert trace.damage is None
            assert told_by_decoder(trace) == told_by_protobuf(XSpace.FromString(SMALL[:end]))


@st.composite
def damaged_spaces(draw: wire_of.Draw) -> bytes:
    """Spaces with bits flipped, bytes put in, left out and moved about, or an end cut off."""
    content = bytearray(draw(wire_of.XSPACES | st.just(SMALL)))
    positions = st.integers(0, max(0, len(content) - 1))
    for _ in range(draw(st.integers(1, 4))):
        at, other = draw(positions), draw(positions)
        size = draw(st.integers(1, 20))
        match draw(st.sampled_from(["flip", "set", "cut", "put", "drop", "splice"])):
            case "flip" if at < len(content):
                content[at] ^= 1 << draw(st.integers(0, 7))
            case "set" if at < len(content):
                content[at] = draw(
                    st.sampled_from([0x00, 0x07, 0x0A, 0x1A, 0x22, 0x7F, 0x80, 0xFF])
                )
            case "cut":
                del content[at:]
            case "put":
                content[at:at] = draw(st.binary(max_size=12))
            case "drop":
                del content[at : at + size]
            case "splice":
                content[at : at + draw(st.integers(0, 20))] = content[other : other + size]
    return bytes(content)


@drawn
@given(damaged_spaces())
def test_any_damage_is_a_trace_or_refused(content: bytes) -> None:
    decode_or_refuse(content)


BROKEN = b"\x07"  # a type that does not exist


def test_a_broken_event_ends_its_line_alone() -> None:
    before = [
        wire_of.event(wire_of.number(1, k), wire_of.stat(wire_of.number(1, k))) for k in (1, 2)
    ]
    broken = wire_of.event(wire_of.number(1, 3), wire_of.stat(BROKEN))
    after = wire_of.event(wire_of.number(1, 4))
    trace = decode(
        wire_of.plane(
            wire_of.line(wire_of.number(1, 7), *before, broken, after, wire_of.text(2, "late")),
            wire_of.line(after),
            wire_of.stat_metadata(1, "s"),
        )
        + wire_of.plane(wire_of.line(after))
    )
    first, second = trace.planes
    assert first.metadata_id.tolist() == [1, 2, 4]
    assert first.lines.event_begin.tolist() == [0, 2, 3]
    assert first.lines.name == ("late", "")  # what a line says of itself is read past its events
    assert first.stat_names == {1: "s"}
    assert second.metadata_id.tolist() == [4]
    assert trace.damage is not None
    assert trace.damage.bytes_lost == len(broken + after + wire_of.text(2, "late"))
    assert trace.damage.places == 1
    assert trace.damage.events_kept == trace.events == 4


@pytest.mark.parametrize(
    "broken",
    [
        BROKEN,
        wire_of.own_stat(BROKEN),
        wire_of.event_metadata(9, BROKEN),
        wire_of.event_metadata(9, wire_of.message(5, BROKEN)),
        wire_of.message(5, BROKEN),
        b"\x0b\x0c",  # a group, which XSpace never had
    ],
)
def test_a_broken_field_ends_its_plane_alone(broken: bytes) -> None:
    whole = [
        wire_of.text(2, "p"),
        wire_of.line(wire_of.event(wire_of.number(1, 1)), wire_of.event()),
        wire_of.event_metadata(1, wire_of.text(2, "e"), wire_of.message(5, wire_of.number(1, 1))),
        wire_of.stat_metadata(1, "s"),
        wire_of.own_stat(wire_of.number(1, 1), wire_of.number(3, 5)),
    ]
    sound = decode(wire_of.plane(*whole))
    trace = decode(wire_of.plane(*whole, broken, *whole) + wire_of.plane(*whole))
    (expected,) = told_by_decoder(sound).planes
    assert told_by_decoder(trace).planes == [expected, expected]
    assert trace.damage is not None
    assert trace.damage.bytes_lost == len(broken + b"".join(whole))
    assert (trace.damage.places, trace.damage.events_kept) == (1, 4)

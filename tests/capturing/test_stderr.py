"""The filter of stderr: what is not TensorFlow's word about the capture passes, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.capturing.stderr import StderrFilter

TOKEN = "0123456789abcdef"  # noqa: S105 - a mark, no secret
QUIET, LOUD = (f"\0traceanalyzer:{TOKEN}:{word}\n".encode() for word in ("quiet", "loud"))
DUMPS = "/somewhere/graphs"

DUMPED = (
    b"2026-11-21 12:26:08.510075: I tensorflow/core/util/dump_graph.cc:240] "
    b"Dumped Graph to /somewhere/graphs/f.before_placer.pb\n"
)
DUMPED_NEWER = (
    b"I0000 00:00:1795263718.987488    4311 dump_graph.cc:245] "
    b"Dumped Graph to /somewhere/graphs/f.before_placer.pb\n"
)
DUMPED_BY_THE_USER = DUMPED.replace(b"/somewhere/graphs", b"/elsewhere")
PLACED = (
    b"2026-11-21 12:46:29.483904: I tensorflow/core/common_runtime/placer.cc:124] "
    b"MatMul(MatMul) placed on: /job:localhost/replica:0/task:0/device:CPU:0\n"
)
WROTE = (
    b"2026-11-21 12:46:29.484218: I tensorflow/core/common_runtime/placer.cc:89] "
    b"Wrote ColocationGraph to /somewhere/graphs/f_colocation_graph.txt\n"
)
PLACEMENT_ASKED_FOR = (
    b"I0000 00:00:1795263718.987488    4311 placer.cc:162] "
    b"mm: (MatMul): /job:localhost/replica:0/task:0/device:CPU:0\n"
)
SESSION = (
    b"I0000 00:00:1795263718.987488    4311 profiler_session.cc:103] "
    b"Profiler session initializing.\n"
)
PREAMBLE = (
    b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\n"
)
CUDA = (
    b"E0000 00:00:1795263718.987488    4311 cuda_executor.cc:1228] "
    b"failed call to cuInit: INTERNAL: CUDA error: Failed call to cuInit\n"
)
OTHER = b"W0000 00:00:1795263718.987488    4311 rendezvous.cc:412] cancelled\n"


def new() -> StderrFilter:
    return StderrFilter(TOKEN, (DUMPS,))


def passed(*chunks: bytes) -> bytes:
    filter_ = new()
    return b"".join(map(filter_.feed, chunks)) + filter_.flush()


def split(data: bytes, sizes: list[int]) -> list[bytes]:
    chunks = []
    for size in sizes:
        chunks.append(data[:size])
        data = data[size:]
    return [*chunks, data]


# What looks like the beginning of what is taken out, and like anything else.
PIECES = st.one_of(
    st.binary(max_size=20),
    st.sampled_from(
        [
            *(
                b"\0",
                b"\0traceanalyzer:",
                QUIET[:-3],
                b"\n",
                b"\r",
                b"\r\n",
                b"Step 12/20",
                b"I0000",
            ),
            *(DUMPED[:40], DUMPED_NEWER[:60], DUMPED_BY_THE_USER, PREAMBLE, PREAMBLE[:30]),
            *(CUDA, OTHER, PLACEMENT_ASKED_FOR, SESSION, b"W", b"2026-11-21 ", b"x.cc:3] y"),
        ]
    ),
)
SIZES = st.lists(st.integers(0, 80), max_size=30)


@given(st.lists(PIECES, max_size=20).map(b"".join), SIZES)
def test_passes_everything_else(data: bytes, sizes: list[int]) -> None:
    assert passed(*split(data, sizes)) == data


# Each part of a program's output, and what of it passes.
PARTS = st.lists(
    st.sampled_from(
        [
            *((DUMPED, b""), (DUMPED_NEWER, b""), (PLACED, b""), (WROTE, b"")),
            *((QUIET + SESSION + LOUD, b""), (SESSION, SESSION)),
            *((QUIET + CUDA + b"mine\n" + LOUD, CUDA + b"mine\n"), (CUDA, CUDA)),
            *((CUDA[:-9], CUDA[:-9]), (b"\r 10%|#", b"\r 10%|#")),
            (b"a line\n", b"a line\n"),
            *((DUMPED_BY_THE_USER, DUMPED_BY_THE_USER), (PLACEMENT_ASKED_FOR, PLACEMENT_ASKED_FOR)),
        ]
    ),
    max_size=12,
)


@given(PARTS, SIZES)
def test_takes_out_what_is_the_captures_wherever_it_is_cut(
    parts: list[tuple[bytes, bytes]], sizes: list[int]
) -> None:
    data = b"".join(part for part, _ in parts)
    assert passed(*split(data, sizes)) == b"".join(rest for _, rest in parts)


def test_keeps_what_it_passes_of_devices() -> None:
    filter_ = new()
    for chunk in split(PLACEMENT_ASKED_FOR + CUDA + OTHER + DUMPED + b"CUDA\n", [7] * 40):
        filter_.feed(chunk)
    assert filter_.log == [CUDA.decode().rstrip("\n")]


@pytest.mark.parametrize(
    ("written", "is_held"),
    [
        *(
            (b"Password: ", False),
            (b"Continue? [y/N] ", False),
            (b"\r 10%|#   | 1/10 [00:01]", False),
        ),
        *((CUDA[:-20], False), (DUMPED[:-20], True), (DUMPED[:30], True), (b"I", True)),
        *((b"\r 10%|# " + DUMPED_NEWER[:20], True), (b"Epoch 3", True)),
        *((PREAMBLE, True), (QUIET[:5], True), (b"x" * 100_000, False)),
    ],
)
def test_holds_only_what_looks_like_a_log_line(written: bytes, *, is_held: bool) -> None:
    filter_ = new()
    at_once = filter_.feed(written)
    assert filter_.is_holding == is_held
    assert (at_once == written) == (not is_held)
    assert at_once + filter_.flush() == written
    assert not filter_.is_holding

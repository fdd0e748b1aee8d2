"""The filter of stderr: what is not TensorFlow's word about the capture passes, byte for byte."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.launch.stderr import StderrFilter, is_about_devices

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


def test_keeps_no_more_than_a_sidecar_can_hold() -> None:
    filter_ = new()
    filter_.feed(CUDA * 3000)
    assert (len(filter_.log), filter_.omitted) == (2000, 1000)


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


def test_never_holds_much() -> None:
    filter_ = new()
    written = DUMPED.rstrip(b"\n") + b"x" * 100_000
    assert filter_.feed(written) == written


class TestAbseilsPreamble:
    """It stands before the first line of a process, be that a line of ours or the script's."""

    def test_goes_with_a_line_that_goes(self) -> None:
        assert passed(PREAMBLE + DUMPED_NEWER + b"mine\n") == b"mine\n"

    def test_comes_with_the_first_line_that_passes(self) -> None:
        written = PREAMBLE + DUMPED_NEWER + b"mine\n" + DUMPED_NEWER + CUDA + OTHER
        assert passed(written) == b"mine\n" + PREAMBLE + CUDA + OTHER

    def test_stays_where_it_is_else(self) -> None:
        written = PREAMBLE + CUDA + b"mine\n"
        assert passed(written) == written
        assert passed(PREAMBLE, b"part", b"\n") == PREAMBLE + b"part\n"


def test_leaves_the_placers_log_to_a_user_who_asked_for_it() -> None:
    filter_ = StderrFilter(TOKEN, (DUMPS,), with_placer=False)
    assert filter_.feed(PLACED) == PLACED


@pytest.mark.parametrize("logdir", ["/a\nb", "/a\n\nb", "/a\n", "/a\rb", "/a"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_takes_out_all_of_a_path_that_takes_lines(logdir: str, size: int) -> None:
    collects = SESSION[:-1] + f" repository: {logdir}/x.xplane.pb\n".encode()
    written = QUIET + collects + b"\n" + collects + LOUD + b"b/mine\n" + collects + b"b/mine\n"
    filter_ = StderrFilter(TOKEN, (DUMPS,), logdir=logdir)
    chunks = split(written, [size] * (len(written) // size))
    rest = b"".join(map(filter_.feed, chunks)) + filter_.flush()
    assert rest == b"\nb/mine\n" + collects + b"b/mine\n"


def test_another_captures_sentinel_is_none() -> None:
    other = QUIET.replace(TOKEN.encode(), b"f" * 16)
    assert passed(other + SESSION) == other + SESSION


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        (CUDA, True),
        (
            b"2026-11-21 12:46:20.918380: I tensorflow/core/platform/cpu_feature_guard.cc:182] x",
            True,
        ),
        (OTHER, False),
        (PLACEMENT_ASKED_FOR, False),
        (b"no GPU here", False),
    ],
)
def test_tells_lines_about_devices(line: bytes, *, is_one: bool) -> None:
    assert is_about_devices(line) == is_one


@pytest.mark.parametrize(
    "chunk",
    [b"x" * (1 << 16), (b"y" * 999 + b"\n") * 65, b"7" * (1 << 16), DUMPED + b"z" * (1 << 16)],
    ids=["no end of line", "long lines", "digits", "with lines of ours"],
)
def test_is_fast(chunk: bytes) -> None:
    rounds = max(1, (64 << 20) // len(chunk))
    best = 0.0
    for _ in range(3):  # another process may have had the processor's caches
        filter_ = new()
        started = time.process_time()
        for _ in range(rounds):
            filter_.feed(chunk)
        best = max(best, rounds * len(chunk) / (time.process_time() - started))
    assert best > 100e6

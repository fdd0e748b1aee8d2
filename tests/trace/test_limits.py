import gzip
import io
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.errors import TraceFormatError, TraceTooLargeError
from traceanalyzer.trace import limits
from traceanalyzer.trace.limits import inflate


def inflated(content: bytes, *, max_bytes: int | None = None) -> tuple[bytes, Exception | None]:
    pieces = []
    try:
        for piece in inflate(io.BytesIO(content), len(content), max_bytes=max_bytes):
            assert len(piece) <= 1 << 20
            pieces.append(piece)
    except TraceFormatError as error:
        return b"".join(pieces), error
    return b"".join(pieces), None


@given(st.binary(), st.integers(0, 4))
def test_what_gzip_compressed_comes_back(content: bytes, level: int) -> None:
    assert inflated(gzip.compress(content, level)) == (content, None)


def test_members_follow_one_another_and_padding_the_last() -> None:
    content = gzip.compress(b"one,") + gzip.compress(b"two") + b"\0" * 100
    assert inflated(content) == (b"one,two", None)


def test_a_cut_file_yields_what_precedes_the_cut() -> None:
    content = np.random.default_rng(1).bytes(200_000)
    whole = gzip.compress(content)
    for cut in (len(whole) - 1, len(whole) - 8, len(whole) // 2, 11):
        got, error = inflated(whole[:cut])
        assert content.startswith(got)
        assert isinstance(error, TraceFormatError)
        assert "cut short" in str(error)


def test_a_bomb_is_refused_in_little_memory() -> None:
    bomb = gzip.compress(b"\0" * (100 << 20), 9)
    tracemalloc.start()
    with pytest.raises(TraceTooLargeError, match="gzip bomb"):
        for _ in inflate(io.BytesIO(bomb), len(bomb)):
            pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20


def test_the_limit_can_be_lowered() -> None:
    content = gzip.compress(b"x" * 5000)
    assert isinstance(inflated(content, max_bytes=4999)[1], TraceTooLargeError)
    assert inflated(content, max_bytes=5000) == (b"x" * 5000, None)


def test_a_limit_that_cannot_be_raised_has_other_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_BYTES", 4999)
    content = gzip.compress(b"x" * 5000)
    assert "--max-memory" in str(inflated(content, max_bytes=4000)[1])
    assert "--max-memory" not in str(inflated(content, max_bytes=9000)[1])


@given(st.binary(max_size=200), st.data())
def test_any_flipped_bit_ends_in_content_or_one_error(content: bytes, data: st.DataObject) -> None:
    whole = bytearray(gzip.compress(content))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    got, error = inflated(bytes(whole))
    assert error is None or isinstance(error, TraceFormatError)
    assert len(got) <= len(content) + 1000

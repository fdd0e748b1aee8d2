"""What is measured of memory."""

import ctypes

import pytest

from traceanalyzer.capturing.recorder import memory
from traceanalyzer.capturing.recorder.memory import HeapGrowth, give_back

SIZE = 32 << 20
BLOCK = 100


@pytest.fixture
def libc() -> ctypes.CDLL:
    found = ctypes.CDLL(None)
    if not hasattr(found, "mallinfo2"):
        pytest.skip("this C library counts pages only")
    found.malloc.restype = ctypes.c_void_p
    found.malloc.argtypes = [ctypes.c_size_t]
    found.free.argtypes = [ctypes.c_void_p]
    return found


def _filled(libc: ctypes.CDLL) -> list[int]:
    """Take small blocks, and use them."""
    blocks = [libc.malloc(BLOCK) for _ in range(SIZE // BLOCK)]
    for block in blocks:
        ctypes.memset(block, 1, BLOCK)
    return blocks


def test_what_is_free_is_given_back_and_counts_when_it_is_taken_anew(libc: ctypes.CDLL) -> None:
    blocks = _filled(libc)
    for block in blocks[:-1]:  # above the last nothing is free
        libc.free(block)
    growth, before = HeapGrowth(), memory._anonymous_bytes()  # noqa: SLF001
    give_back()
    assert before - memory._anonymous_bytes() > SIZE // 2  # noqa: SLF001
    assert growth.bytes() == 0
    anew = _filled(libc)
    assert growth.bytes() >= SIZE
    for block in (blocks[-1], *anew):
        libc.free(block)

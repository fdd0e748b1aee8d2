"""What is measured of memory."""

from __future__ import annotations

import ctypes

import pytest

from traceanalyzer.recorder import memory
from traceanalyzer.recorder.memory import HeapGrowth, free_share

SIZE = 100 << 20
BLOCK = 100


def test_small_blocks_of_the_heap_count_and_large_ones_do_not() -> None:
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        pytest.skip("this C library counts pages only")
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    growth = HeapGrowth()
    large = bytearray(b"x" * SIZE)  # as an array: mapped by itself
    assert growth.bytes() < SIZE // 2
    del large
    blocks = [libc.malloc(BLOCK) for _ in range(SIZE // BLOCK)]
    for block in blocks:
        ctypes.memset(block, 1, BLOCK)
    assert SIZE <= growth.bytes() < 2 * SIZE
    for block in blocks:
        libc.free(block)


def test_a_share_is_free() -> None:
    assert 0 < free_share() <= 1


def test_all_is_free_where_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_fields_of", lambda _: {})
    monkeypatch.setattr(memory, "_CGROUPS", ())
    assert free_share() == 1
    assert HeapGrowth().bytes() == 0

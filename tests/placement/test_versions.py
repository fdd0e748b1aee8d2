"""Versions: which table is nearest, what it proves, ranges that last when a version is added."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel_tables.tables import ranges
from traceanalyzer.placement.kernel_tables import (
    covers,
    minor_of,
    nearest_minor,
)

AVAILABLE = [(2, minor) for minor in range(12, 22)]


@pytest.mark.parametrize(
    ("version", "nearest", "is_exact"),
    [
        ("2.21", (2, 21), True),
        ("2.21.0", (2, 21), True),
        ("v2.12.1", (2, 12), True),
        ("2.13.0-rc1", (2, 13), False),
        ("2.13.0rc1", (2, 13), False),
        ("2.22.0-dev20260101", (2, 21), False),
        ("2.13.0+nv23.7", (2, 13), False),
        ("v2.16.1-19-g810f233968c", (2, 16), False),
        ("2.11.0", (2, 12), False),
        ("1.15.5", (2, 12), False),
        ("3.0.0", (2, 21), False),
        ("unknown", (2, 21), False),
        ("", (2, 21), False),
        (None, (2, 21), False),
    ],
)
def test_the_nearest(version: str | None, nearest: tuple[int, int], *, is_exact: bool) -> None:
    assert nearest_minor(version, AVAILABLE) == (nearest, is_exact)


@pytest.mark.parametrize("no_version", ["", "x", "2", "TensorFlow 2.21", "2.x"])
def test_refuses_what_is_no_version(no_version: str) -> None:
    with pytest.raises(ValueError, match="no version of TensorFlow"):
        minor_of(no_version)


@given(st.sets(st.sampled_from(AVAILABLE), min_size=1))
def test_ranges_hold_what_was_written(versions: set[tuple[int, int]]) -> None:
    written = ranges(versions, AVAILABLE)
    assert {version for version in AVAILABLE if covers(written, version)} == versions

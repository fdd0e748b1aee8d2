"""An error that passes through our code has the traceback that it would have without it."""

from __future__ import annotations

import sys
import traceback
from typing import TYPE_CHECKING

import pytest

from traceanalyzer.recorder.tracebacks import hide_frame, unseen

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="our frames stay there")


def fails() -> None:
    raise KeyboardInterrupt


def in_a_context() -> None:
    with unseen:
        fails()


def in_a_clause() -> None:
    try:
        fails()
    except BaseException as error:
        hide_frame(error)
        raise


def in_both() -> None:
    with unseen:
        try:
            in_a_context()
        except KeyboardInterrupt as error:
            error.args = ("seen",)
            raise


@pytest.mark.parametrize("passes", [in_a_context, in_a_clause, in_both])
def test_our_frame_is_not_told(passes: Callable[[], None]) -> None:
    with pytest.raises(KeyboardInterrupt) as raised:
        passes()
    names = [frame.name for frame in traceback.extract_tb(raised.tb)]
    assert names == ["test_our_frame_is_not_told", "fails"]


def test_what_raises_nothing_passes() -> None:
    with unseen:
        passed = True
    assert passed

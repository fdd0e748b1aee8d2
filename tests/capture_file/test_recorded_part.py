"""How much of a program a capture recorded."""

from __future__ import annotations

import pytest

from traceanalyzer.capture_file.document import CaptureFile, Session
from traceanalyzer.capture_file.recorded_run import recorded_part

S = 10**9


def recorded(start_s: int, stop_s: int | None, end_s: int | None) -> CaptureFile:
    """A capture of a program that began at 0 and had imported TensorFlow after 8 s."""
    session = Session(
        trace="vm.xplane.pb",
        method="api",
        requested=None,
        effective=None,
        start_ns=start_s * S,
        stop_ns=None if stop_s is None else stop_s * S,
        reason="from call 3 of step",
    )
    return CaptureFile(
        tool="1",
        host="vm",
        complete=True,
        environment={"started_ns": 0, "attached_ns": 8 * S},
        devices={} if end_s is None else {"ended_ns": end_s * S},
        sessions=(session,),
    )


@pytest.mark.parametrize(
    ("start_s", "stop_s", "end_s", "words", "is_nearly_all"),
    [
        (38, 50, 50, "12.0 s of 50.0 s", False),
        (10, 29, 30, "19.0 s of 30.0 s", True),  # the import is nothing to record
        (9, 10, 11, "1.00 s of 11.0 s", True),
        (38, 50, None, "12.0 s", True),
    ],
)
def test_of_how_much(
    start_s: int, stop_s: int, end_s: int | None, words: str, *, is_nearly_all: bool
) -> None:
    part = recorded_part(recorded(start_s, stop_s, end_s), 0)
    assert part is not None
    assert (str(part), part.is_nearly_all) == (words, is_nearly_all)


def test_unknown() -> None:
    assert recorded_part(recorded(38, None, None), 0) is None
    assert recorded_part(recorded(38, 50, 50), None) is None

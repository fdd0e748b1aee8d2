"""The levels that a trace states."""

import pytest

from tests.traces import decode, task_environment, xspace
from traceanalyzer.trace.xplane import profile_options


@pytest.mark.parametrize(
    "options",
    [
        b"\x10\x02\x18",  # ends within a field
        b"\x10\x02\x52\xff\xff\xff\xff\x0f",  # text longer than the message
    ],
)
def test_options_that_are_cut_short_tell_what_they_still_tell(options: bytes) -> None:
    found = profile_options(decode(xspace(task_environment(options=options))))

    assert found is not None
    assert found.host_tracer_level == 2

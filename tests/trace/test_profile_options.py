"""The levels that a trace states, read off its decoded form and off its file."""

from pathlib import Path
from typing import Any

import pytest

from tests.traces import decode, task_environment, xspace
from traceanalyzer.trace.profile_options import ProfileOptions, profile_options, profile_options_in


def read_both_ways(folder: Path, space: Any) -> list[ProfileOptions | None]:  # noqa: ANN401  # a message
    file = folder / "h.xplane.pb"
    file.write_bytes(space.SerializeToString())
    return [profile_options(decode(space)), profile_options_in(file)]


@pytest.mark.parametrize(
    "options",
    [
        b"\x10\x02\x18",  # ends within a field
        b"\x10\x02\x52\xff\xff\xff\xff\x0f",  # text longer than the message
    ],
)
def test_options_that_are_cut_short_tell_what_they_still_tell(
    tmp_path: Path, options: bytes
) -> None:
    found = read_both_ways(tmp_path, xspace(task_environment(options=options)))

    assert [each and each.host_tracer_level for each in found] == [2, 2]

"""What we write or lead elsewhere is ours, whatever the program has closed and opened."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from traceanalyzer.capturing.recorder.ending import OwnDescriptor

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def own(tmp_path: Path) -> Iterator[OwnDescriptor]:
    with (tmp_path / "ours").open("wb") as file:
        found = OwnDescriptor(file.fileno())
        yield found
        os.close(found.number)


def test_a_duplicate_is_out_of_the_way_and_closed_on_exec(own: OwnDescriptor) -> None:
    assert own.number >= 200
    assert fcntl.fcntl(own.number, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    assert own.is_ours()


def test_a_file_that_the_program_opened_in_its_place_is_left_alone(
    own: OwnDescriptor, tmp_path: Path
) -> None:
    with (tmp_path / "theirs").open("wb") as theirs, Path(os.devnull).open("rb") as nowhere:
        os.dup2(theirs.fileno(), own.number)
        assert not own.is_ours()
        own.point_to(nowhere.fileno())
        assert os.path.sameopenfile(own.number, theirs.fileno())


def test_what_was_closed_is_not_opened_again(own: OwnDescriptor) -> None:
    os.close(own.number)
    try:
        assert not own.is_ours()
        own.point_to(0)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(own.number)
    finally:
        os.dup2(0, own.number)

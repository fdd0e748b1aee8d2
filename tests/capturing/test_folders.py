"""The folder of a run is one capture's own, and is not left behind empty."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from traceanalyzer.capturing.folders import reserved_run
from traceanalyzer.errors import TraceAnalyzerError

if TYPE_CHECKING:
    from pathlib import Path


def test_of_two_captures_with_one_name_the_second_is_refused(tmp_path: Path) -> None:
    with reserved_run(tmp_path, "mine") as folder:
        with (
            pytest.raises(TraceAnalyzerError, match="has such a run"),
            reserved_run(tmp_path, "mine"),
        ):
            pass
        assert folder.is_dir()
    assert not [*tmp_path.iterdir()]


def test_captures_of_one_second_get_folders_of_their_own(tmp_path: Path) -> None:
    with reserved_run(tmp_path, None) as first, reserved_run(tmp_path, None) as second:
        assert first != second
        (first / "host.xplane.pb").touch()
    assert first.is_dir()
    assert not second.exists()

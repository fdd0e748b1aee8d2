"""The folder of a run is one capture's own, and is not left behind empty."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from traceanalyzer.capturing.folders import reserved_run
from traceanalyzer.errors import TraceAnalyzerError

if TYPE_CHECKING:
    from pathlib import Path

_OTHER = """
import sys
from pathlib import Path
from traceanalyzer.capturing.folders import reserved_run
with reserved_run(Path(sys.argv[1]), "mine"):
    print("made", flush=True)
    sys.stdin.read()
"""


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


def test_only_the_empty_folder_of_a_capture_that_was_killed_is_removed(tmp_path: Path) -> None:
    runs = tmp_path / "plugins" / "profile"
    with subprocess.Popen(
        [sys.executable, "-c", _OTHER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"made\n"
        (runs / "kept").mkdir()
        (runs / "kept" / "host.xplane.pb").touch()
        long_ago = (time.time() - 3600,) * 2
        for name in ("mine", "kept"):
            os.utime(runs / name, long_ago)
        with reserved_run(tmp_path, "first"):  # the other capture is under way
            assert {folder.name for folder in runs.iterdir()} == {"first", "kept", "mine"}
        other.send_signal(signal.SIGKILL)
    with reserved_run(tmp_path, "mine"):
        assert {folder.name for folder in runs.iterdir()} == {"kept", "mine"}
    assert [folder.name for folder in runs.iterdir()] == ["kept"]

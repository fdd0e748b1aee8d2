"""The folder of a run is one capture's own, and is not left behind empty."""

from __future__ import annotations

import os
import subprocess
import sys
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
with reserved_run(Path(sys.argv[1]), sys.argv[2]):
    print("made", flush=True)
    sys.stdin.read()
"""


def test_of_two_captures_with_one_name_the_second_is_refused(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _OTHER, str(tmp_path), "mine"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"made\n"
        with (
            pytest.raises(TraceAnalyzerError, match="another capture is recording"),
            reserved_run(tmp_path, "mine"),
        ):
            pass
        assert (tmp_path / "plugins" / "profile" / "mine").is_dir()
        other.kill()

    with reserved_run(tmp_path, "mine") as folder:  # what the other left is no obstacle
        assert folder.is_dir()


def test_captures_of_one_second_get_folders_of_their_own(tmp_path: Path) -> None:
    with reserved_run(tmp_path, None) as first, reserved_run(tmp_path, None) as second:
        assert first != second


def test_empty_folders_of_captures_that_were_killed_go_with_the_next(tmp_path: Path) -> None:
    runs = tmp_path / "plugins" / "profile"
    for name in ("2026_01_02_03_04_05", "2026_01_02_03_04_06", "mine"):
        (runs / name).mkdir(parents=True)
        os.utime(runs / name, (0, 0))
    (runs / "2026_01_02_03_04_06" / "host.xplane.pb").write_bytes(b"x")

    with reserved_run(tmp_path, "other"):
        pass

    assert sorted(folder.name for folder in runs.iterdir()) == ["2026_01_02_03_04_06", "mine"]

"""Work that is done in processes which are not recorded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from traceanalyzer.capturing.recorder.journal import Journal
from traceanalyzer.capturing.recorder.process import children as processes

if TYPE_CHECKING:
    from pathlib import Path


def notes(folder: Path, monkeypatch: pytest.MonkeyPatch, theirs: float, own: float) -> list[Any]:
    """What is noted of processes that used so many seconds while the program used its own."""
    monkeypatch.setattr(processes, "_AT_FIRST", (10.0, 20.0))
    monkeypatch.setattr(processes, "_cpu_s", lambda: (10.0 + theirs, 20.0 + own))
    path = folder / "journal"
    processes.note_other_starts(Journal(str(path)))
    found = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    return [record for record in found if record["id"] == "work_of_child_processes"]


@pytest.mark.parametrize(("theirs", "own", "severity"), [(8, 3, "warning"), (8, 60, "info")])
def test_the_work_of_child_processes_is_noted_with_how_much_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theirs: float, own: float, severity: str
) -> None:
    (note,) = notes(tmp_path, monkeypatch, theirs, own)
    assert note["severity"] == severity
    assert "8.0 s of CPU time" in note["message"]


def test_small_tools_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert notes(tmp_path, monkeypatch, 0.4, 0.1) == []

"""The errors that are recorded: message, classes, and the lines that were running."""

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from traceanalyzer.capturing.recorder import errors
from traceanalyzer.capturing.recorder.errors import ErrorRecorder, journal_fatal
from traceanalyzer.capturing.recorder.hooks import JournalWriter

# As a function of TensorFlow that is recorded raises.
FAIL = "def fail(error):\n    record('resource_exhausted', error)\n    raise error"


def _records(folder: Path) -> list[dict[str, Any]]:
    path = folder / "journal"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _run(folder: Path, source: str) -> list[dict[str, Any]]:
    """Run a program that calls `fail(error)`, and return the records of its errors."""
    recorder = ErrorRecorder(JournalWriter(str(folder / "journal")))
    names: dict[str, Any] = {"__name__": "__main__", "record": recorder._record}  # noqa: SLF001
    exec(compile(FAIL, errors.__file__, "exec"), names)  # noqa: S102
    program = folder / "program.py"
    program.write_text(textwrap.dedent(source))
    exec(compile(program.read_text(), str(program), "exec"), names)  # noqa: S102
    found = _records(folder)
    assert {record["kind"] for record in found} <= {"error"}
    return found


def test_an_error_is_journalled_with_the_users_frames(tmp_path: Path) -> None:
    (record,) = _run(
        tmp_path,
        """\
        def configure():
            fail(RuntimeError("x" * 5000 + "last"))
        try:
            configure()
        except RuntimeError:
            pass
        """,
    )
    file = str(tmp_path / "program.py")
    message = "x" * 2000 + " ... " + "x" * 996 + "last"
    assert (record["type"], record["message"]) == ("RuntimeError", message)
    # This test is the user's as well: it calls the program.
    assert record["raised"][:2] == [[file, 2, "configure", 1], [file, 4, "<module>", 1]]
    assert record["classes"] == ["RuntimeError", "Exception", "BaseException", "object"]


def test_the_error_that_ends_a_program_is_journalled_with_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = JournalWriter(str(tmp_path / "journal"))
    monkeypatch.setattr(sys, "last_value", None, raising=False)
    journal_fatal(journal)
    assert _records(tmp_path) == []

    file = str(tmp_path / "program.py")
    try:
        exec(compile("def f():\n    int('x')\nf()", file, "exec"), {})  # noqa: S102
    except ValueError as error:
        monkeypatch.setattr(sys, "last_value", error)  # as Python does where nobody catches it
    journal_fatal(journal)

    (record,) = _records(tmp_path)
    assert (record["where"], record["type"], record["classes"]) == ("program", "ValueError", [])
    assert record["raised"][:2] == [[file, 2, "f", 1], [file, 3, "<module>", 1]]

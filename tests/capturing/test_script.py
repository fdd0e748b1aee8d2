"""The interpreter's words, the script's environment, and what keeps the recorder out."""

from pathlib import Path
from typing import Any

import pytest

from traceanalyzer.capturing.orchestrate import Request
from traceanalyzer.capturing.script import (
    Program,
    interpreter,
)
from traceanalyzer.errors import TraceAnalyzerError


def test_a_name_is_looked_up_and_may_have_options(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    python = tmp_path / "my python"
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    assert interpreter(str(python)) == (str(python),)
    assert interpreter(f"'{python}' -X dev") == (str(python), "-X", "dev")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert interpreter("'my python'") == (str(python),)
    with pytest.raises(TraceAnalyzerError, match="no such program"):
        interpreter("python")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["python"], None),
        (["python", "-OBE"], "-E"),
        (["python", "-X", "dev", "-S"], "-S"),
        (["python", "-Wignore::ResourceWarning", "-Ximporttime"], None),
        (["srun", "-n", "1", "python"], None),
        (["env", "A=1", "python", "-I"], "-I"),
    ],
)
def test_knows_what_keeps_the_recorder_out(words: list[str], option: str | None) -> None:
    program = Program(interpreter=tuple(words), target="x", is_module=False, arguments=())
    found = program.obstacle
    assert (found and found.partition(" ")[0]) == option


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, ""),
        ({"window": {"kind": "steps", "first": 10, "last": 20}}, "--steps 10:20 "),
        ({"window": {"kind": "time", "after_s": 30.0, "for_s": 2.5}}, "--after 30s --for 2.5s "),
        ({"host_tracer_level": 3}, "--host-tracer-level 3 "),
        (
            {"source": False},
            "--no-source ",
        ),
        ({"run": "mine", "logdir": Path("logs"), "report": Path("page.html")}, ""),
    ],
)
@pytest.mark.parametrize(("is_module", "target"), [(False, "train.py"), (True, "-m train.py")])
def test_what_was_asked_for_can_be_typed_again(
    asked: dict[str, Any], words: str, target: str, *, is_module: bool
) -> None:
    program = Program(
        interpreter=("python", "-u"), target="train.py", is_module=is_module, arguments=("-x", "1")
    )
    request = Request(**{"program": program, "logdir": Path("elsewhere"), **asked})
    assert " ".join(request.words) == f"traceanalyzer capture {words}{target} -x 1"

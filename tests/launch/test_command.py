"""The interpreter's words, the script's environment, and what keeps the recorder out."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.launch.command import (
    SETTINGS_VARIABLE,
    STARTUP,
    Program,
    environment,
    interpreter,
    obstacle,
)
from traceanalyzer.launch.orchestrate import Request


@pytest.mark.parametrize(
    ("started", "passed_on"),
    [
        (["traceanalyzer"], []),
        (["-m", "traceanalyzer", "-X", "dev"], []),
        (["-X", "dev", "-m", "traceanalyzer"], ["-Xdev"]),
        (["-Xdev", "-OO", "-u", "traceanalyzer"], ["-Xdev", "-OO", "-u"]),
        (["-W", "error", "-W", "ignore::X", "traceanalyzer"], ["-Werror", "-Wignore::X"]),
        (["-BmX"], ["-B"]),
        (["-sP", "traceanalyzer"], []),
        (["-IO", "traceanalyzer"], ["-O"]),
        (["-bWerror", "traceanalyzer"], ["-Werror", "-b"]),
        (["--check-hash-based-pycs", "never", "x"], ["--check-hash-based-pycs", "never"]),
        (["-", "-O"], []),
    ],
)
def test_own_options_are_passed_on(
    monkeypatch: pytest.MonkeyPatch, started: list[str], passed_on: list[str]
) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", *started])
    assert interpreter(None) == (sys.executable, *passed_on)


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
    with pytest.raises(TraceAnalyzerError, match="there is no such interpreter"):
        interpreter("python")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["python"], None),
        (["python", "-OB"], None),
        (["python", "-I"], "-I"),
        (["python", "-OBE"], "-E"),
        (["python", "-X", "-S"], None),
        (["python", "-XI"], None),
        (["python", "-W", "E", "-S"], "-S"),
        (["srun", "-n", "1", "python"], None),
        (["env", "A=1", "python", "-I"], "-I"),
    ],
)
def test_knows_what_keeps_the_recorder_out(words: list[str], option: str | None) -> None:
    found = obstacle(words)
    assert (found and found.partition(" ")[0]) == option


def test_the_recorder_is_first_on_the_path_and_nothing_else_changes() -> None:
    settings = Path("settings.json")
    for users in ({}, {"PYTHONPATH": ""}, {"PYTHONPATH": "a::b"}):
        variables = environment({"HOME": "h", **users}, settings)
        first, _, rest = variables.pop("PYTHONPATH").partition(os.pathsep)
        assert Path(first, "sitecustomize.py").is_file()
        assert first == str(STARTUP)
        assert rest == users.get("PYTHONPATH", "")
        assert variables == {"HOME": "h", SETTINGS_VARIABLE: "settings.json"}


def test_what_is_run_is_what_would_be() -> None:
    program = Program(
        interpreter=("python", "-O"), target="x.py", is_module=False, arguments=("-m", "--")
    )
    assert program.words == ["python", "-O", "x.py", "-m", "--"]
    module = Program(interpreter=("python",), target="x.y", is_module=True, arguments=("z",))
    assert module.words == ["python", "-m", "x.y", "z"]
    module.check()


def test_where_its_code_may_lie() -> None:
    def sources(target: str, *, is_module: bool) -> list[str]:
        program = Program(interpreter=("python",), target=target, is_module=is_module, arguments=())
        return [str(path) for path in program.sources]

    assert sources("a/b.py", is_module=False) == ["a/b.py", "a/b.py/__main__.py"]
    assert sources("a.b", is_module=True) == ["a/b.py", "a/b/__main__.py"]
    assert sources("a", is_module=True) == ["a.py", "a/__main__.py"]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, ""),
        ({"window": {"kind": "steps", "first": 10, "last": 20}}, "--steps 10:20 "),
        ({"window": {"kind": "time", "after_s": 30.0, "for_s": 2.5}}, "--after 30s --for 2.5s "),
        ({"host_tracer_level": 3}, "--host-tracer-level 3 "),
        (
            {"python_tracer": True, "device_tracer": False, "source": False},
            "--python-tracer --no-device-tracer --no-source ",
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

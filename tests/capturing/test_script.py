"""The interpreter's words, and the command's."""

from pathlib import Path

import pytest

from traceanalyzer.capturing import orchestrate
from traceanalyzer.capturing.orchestrate import Request
from traceanalyzer.capturing.script import interpreter
from traceanalyzer.cli import main
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


def test_the_command_is_recorded_as_it_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[Request] = []
    monkeypatch.setattr(orchestrate, "record", lambda request, _: requests.append(request) or 0)
    options = ["--logdir", "logs", "--steps=10:20", "--python", "python -u", "--no-report"]
    words = ["capture", *options, "-m", "train", "-x", "1"]
    with pytest.raises(SystemExit):
        main(words)
    assert requests[0].command == ("traceanalyzer", *words)

"""The page of a capture is written by a process of its own: a failure of it is not the script's."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["page_command", "reason_of"]

# Runs our command line with our own module path, wherever the user stands.
_REPORT: Final = """
import json, sys
sys.path[:] = json.loads(sys.argv.pop(1))
from traceanalyzer.cli import main
main(sys.argv[1:])
"""


def page_command(trace: Path, page: Path) -> list[str]:
    """Return the command line that writes the page about a trace."""
    run = [sys.executable, "-P", "-c", _REPORT, json.dumps(sys.path)]
    return [*run, "report", str(trace), "-o", str(page)]


def reason_of(stderr: str, code: int) -> str:
    """Return why it failed, in a line.

    Args:
        stderr: What it said.
        code: Its exit code.
    """
    last = stderr.strip().rpartition("\n")[2].removeprefix("traceanalyzer: ")
    return last or f"the report ended with code {code}"

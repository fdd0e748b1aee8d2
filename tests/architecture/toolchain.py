"""The tools that judge the source, run by the interpreter that runs the tests."""

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["LINT_IMPORTS", "ROOT", "complaints"]

ROOT = Path(__file__).resolve().parents[2]

# import-linter has no module to run with -m.
LINT_IMPORTS = (
    "-c",
    "from importlinter.cli import lint_imports_command; lint_imports_command()",
    "--no-cache",
)


def complaints(*arguments: str, folder: Path = ROOT) -> str:
    """Return what a tool found fault with, or nothing where it is content."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"NO_COLOR": "1", "COLUMNS": "160"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return f"exit code {done.returncode}:\n{done.stdout}" if done.returncode else ""

"""Captures a script in a process that has imported TensorFlow: what the oracle's fork runs."""

from __future__ import annotations

import runpy
import sys

__all__ = ["capture"]


def capture(script: str, logdir: str, level: int, *arguments: str) -> None:
    """Run a script as `python SCRIPT ARGUMENTS`, and capture it.

    Args:
        script: Its file.
        logdir: Where the run directory is made.
        level: Host tracer level.
        arguments: Its arguments.
    """
    import traceanalyzer as ta  # noqa: PLC0415 - in the fork, where the project can be imported

    sys.argv = [script, *arguments]
    with ta.capture(logdir, host_tracer_level=level):
        runpy.run_path(script, run_name="__main__")

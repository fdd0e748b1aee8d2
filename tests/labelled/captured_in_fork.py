"""Captures a script in a fork of the oracle, which has imported TensorFlow."""

import runpy
import sys
from pathlib import Path


def capture(script: str, logdir: str, level: int, *arguments: str) -> None:
    """Capture a script at a host tracer level, run as `python SCRIPT ARGUMENTS`."""
    import traceanalyzer as ta  # noqa: PLC0415 - in the fork, where the project can be imported

    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).parent))
    with ta.capture(logdir, host_tracer_level=level):
        runpy.run_path(script, run_name="__main__")

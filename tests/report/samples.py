"""The recorded samples, diagnosed once for all tests of a process."""

from functools import cache
from pathlib import Path

import traceanalyzer as ta
from traceanalyzer.diagnosis import Diagnosis

_FOLDER = Path(__file__).resolve().parents[2] / "sample_traces"
SAMPLES = sorted(folder.name for folder in _FOLDER.iterdir() if folder.is_dir())


@cache
def sample(name: str) -> Diagnosis:
    """Return the diagnosis of a sample trace."""
    return ta.diagnose(ta.load(_FOLDER / name))

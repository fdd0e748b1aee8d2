"""Where the traces recorded by others lie, for tests that are skipped where they are absent."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.run import runs

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus"

needs_corpus = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="the corpus of recorded traces (../shared/corpus) is not here"
)


def slow_but(quick: Callable[[Any], bool], cases: Iterable[Any]) -> list[Any]:
    """Mark the cases of a parametrized test slow, except a few that show a break soon."""
    return [
        case
        if quick(case)
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for case in cases
    ]


def recorded_runs() -> list[tuple[str, str]]:
    """Folder and run of everything in the corpus; no run where none is found."""
    found = []
    for folder in sorted(CORPUS.glob("*/")):
        try:
            found += [(folder.name, run) for run in runs(folder)]
        except TraceAnalyzerError:
            found.append((folder.name, ""))
    return found

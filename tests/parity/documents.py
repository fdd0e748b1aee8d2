"""Records the documents to compare: of all samples, of the corpus, and of captures."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import traceanalyzer as ta
from tests.corpus import CORPUS
from tests.samples import CASES
from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.document import dumps
from traceanalyzer.trace.discovery import find_runs

__all__ = ["record"]


def record(destination: Path, captures: Iterable[Path]) -> Iterator[str]:
    """Write the document of each run, or its error, and yield their names.

    Args:
        destination: A folder, which is created if it is missing.
        captures: Folders that contain log directories.
    """
    destination.mkdir(parents=True, exist_ok=True)
    for name, logs in _log_directories(captures):
        for run in _runs(logs):
            try:
                text = dumps(assemble(ta.diagnose(ta.load(logs, run=run))))
            except ta.TraceAnalyzerError as error:
                text = f'{{"refused": "{type(error).__name__}"}}'
            whole = "--".join(filter(None, (name, run)))
            (destination / f"{whole}.json").write_text(text, encoding="utf-8")
            yield whole


def _log_directories(captures: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    for case in CASES:
        yield f"sample-{case.name}", case.logs
    for folder in sorted(CORPUS.iterdir()) if CORPUS.is_dir() else ():
        if folder.is_dir():
            yield f"corpus-{folder.name}", folder
    for root in captures:
        for plugins in sorted(root.rglob("plugins")):
            name = "-".join(plugins.parent.relative_to(root.parent).parts)
            yield f"capture-{name}", plugins.parent


def _runs(logs: Path) -> list[str | None]:
    try:
        return [run.name for run in find_runs(logs)]
    except ta.TraceAnalyzerError:
        return [None]

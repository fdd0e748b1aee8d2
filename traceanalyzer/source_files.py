"""Shortens source file names to paths relative to the program."""

from collections.abc import Iterable, Iterator
from pathlib import PurePath

from traceanalyzer.run import Run


def shown_files(files: Iterable[object], run: Run) -> list[str | None]:
    """Return file paths relative to the program's folder or working directory.

    Files elsewhere keep their full path.
    """
    roots = list(_roots(run))
    known: dict[str, str] = {}
    return [
        known.setdefault(file, _shown(file, roots)) if isinstance(file, str) else None
        for file in files
    ]


def _roots(run: Run) -> Iterator[PurePath]:
    for _, capture_file in run.captured:
        environment = capture_file.environment or {}
        folder, script = environment.get("cwd"), environment.get("script")
        if isinstance(folder, str) and folder:
            if isinstance(script, str) and script:
                yield (PurePath(folder) / script).parent
            yield PurePath(folder)


def _shown(file: str, roots: list[PurePath]) -> str:
    path = PurePath(file)
    root = next((root for root in roots if path.is_relative_to(root)), None)
    return file if root is None else path.relative_to(root).as_posix()

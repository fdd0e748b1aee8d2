"""Finds the source files of a report below the folder that a check runs in."""

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from traceanalyzer.check.breaches import Breach

_MOST_FILES: Final = 200_000
_SKIPPED: Final = frozenset({"node_modules", "site-packages", "__pycache__"})


def located(found: Iterable[Breach], root: Path) -> tuple[Breach, ...]:
    """Make the breaches' file paths relative to `root` if exactly one file there matches.

    Reports omit the author's folders, but SARIF and GitHub need paths within the repository.
    """
    breaches = tuple(found)
    wanted = {each.file for each in breaches if each.file and not (root / each.file).is_file()}
    paths = _paths(wanted, root) if wanted else {}
    return tuple(replace(each, file=paths.get(each.file or "", each.file)) for each in breaches)


def _paths(wanted: set[str], root: Path) -> dict[str, str]:
    """Map each name to the path below `root` that ends with it, if there is only one."""
    fitting: dict[str, list[str]] = {name: [] for name in wanted}
    seen = 0
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if not f.startswith(".") and f not in _SKIPPED]
        seen += len(files)
        if seen > _MOST_FILES:
            break
        for file in files:
            path = os.path.relpath(os.path.join(folder, file), root)  # noqa: PTH118
            for name in wanted:
                if f"/{path}".endswith(f"/{name}"):
                    fitting[name].append(path)
    return {name: paths[0] for name, paths in fitting.items() if len(paths) == 1}

"""Compares a prediction made without a GPU with TensorFlow's placement on an emulated one.

    python -m tests.twin SCRIPT [ARGUMENTS]     # or -m MODULE [ARGUMENTS]
    python -m tests.twin --table KEPT FOLDER... # each program in or below the folders, as a table

A program is a folder with a `program.toml`, which names the `script` beside it or a `module`,
`arguments`, `pythonpath`, and `environment`; in other folders, each Python file is a program. For
public programs, the file also contains the `repository`, `path`, `commit`, what was `changed`, the
`cpu_seconds` without a capture, and the `verdict` on the report's headline. Captures are kept in
KEPT and reused. The exit code is 1 if a prediction is wrong or an op was missed.
"""

import os
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.twin.capturing import Captured, capture
from tests.twin.comparing import Twin, compare

_COLUMNS = ("right", "wrong", "certain", "missed", "untraced", "apart")
_ABOUT = ("repository", "path", "commit", "changed")


def _twin(
    words: Sequence[str], environment: Mapping[str, str], cwd: Path | None, logs: Path
) -> tuple[Twin, Captured]:
    """Capture a program both ways; return the comparison, and the capture without a GPU."""
    without, emulated = (
        capture(words, gpus=gpus, logdir=logs / str(gpus), environment=environment, cwd=cwd)
        for gpus in (0, 1)
    )
    return compare(without, emulated), without


def _programs(folder: Path) -> Iterator[tuple[dict[str, Any], Path, list[str], dict[str, str]]]:
    """Yield the programs of a folder: settings, working directory, command line, variables."""
    files = sorted(folder.glob("**/program.toml"))
    for file in files:
        settings: dict[str, Any] = tomllib.loads(file.read_text())
        module = settings.get("module")
        words = ["-m", module] if module else [settings["script"]]
        words += map(str, settings.get("arguments", []))
        variables: dict[str, str] = settings.get("environment", {})
        paths = os.pathsep.join(settings.get("pythonpath", []))
        yield settings, file.parent, words, {**variables, "PYTHONPATH": paths}
    for script in sorted(folder.glob("[!_]*.py")) if not files else ():
        yield {"name": script.stem}, folder, [script.name], {}


def _table(kept: Path, folders: Sequence[str]) -> bool:
    columns = (*_ABOUT, *_COLUMNS, "CPU", "verdict", "status")
    print(f"| {' | '.join(columns)} |\n|{' --- |' * len(columns)}")
    totals: Counter[str] = Counter(dict.fromkeys(_COLUMNS, 0))
    for settings, folder, words, environment in (p for f in folders for p in _programs(Path(f))):
        name = settings["name"]
        twin, captured = _twin(words, environment, folder, kept / name)
        counts = {column: len(getattr(twin, column)) for column in _COLUMNS}
        about = {"path": name, **settings}
        alone = settings.get("cpu_seconds")
        cells = [
            *(about.get(column, "") for column in _ABOUT),
            *counts.values(),
            f"{captured.cpu_seconds / alone:.2f}" if alone else "",
            settings.get("verdict", ""),
            twin.status,
        ]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)
        for kind in ("wrong", "missed"):
            for op in getattr(twin, kind):
                print(f"{name}: {kind}: {op}", file=sys.stderr, flush=True)
        if twin.is_whole:  # a comparison in part is no agreement
            totals.update(counts)
    print("compared as a whole: " + ", ".join(f"{n} {column}" for column, n in totals.items()))
    return not totals["wrong"] + totals["missed"]


def _one(words: Sequence[str]) -> bool:
    with tempfile.TemporaryDirectory(prefix="twin-") as folder:
        twin, _ = _twin(words, {}, None, Path(folder))
    print(f"{twin.status}; {twin.predictions} findings")
    for name in _COLUMNS:
        ops = getattr(twin, name)
        print(f"{name}: {len(ops)}", *(ops if name != "right" else ()), sep="\n    ")
    return not (twin.wrong or twin.missed)


def main(words: Sequence[str]) -> int:
    """Check one program, or print the table of many."""
    if not words:
        print(__doc__)
        return 2
    is_right = _table(Path(words[1]), words[2:]) if words[0] == "--table" else _one(words)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Prints how a prediction made without a GPU agrees with TensorFlow on an emulated one.

    python -m tests.twin SCRIPT [ARGUMENTS]     # or -m MODULE [ARGUMENTS]
    python -m tests.twin --table KEPT FOLDER... # each program in or below the folders, as a table

A program is a folder with a `program.toml`, which names the `script` beside it or a `module`,
`arguments`, `pythonpath` and `environment`; in a folder without any, each Python file. Captures are
kept in KEPT and not made again. The exit code is 1 where a prediction is wrong or an op was missed.
"""

from __future__ import annotations

import os
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.twin.capturing import capture
from tests.twin.comparing import Twin, compare

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_COLUMNS = ("right", "wrong", "certain", "missed", "untraced", "apart")


def _twin(
    words: Sequence[str], environment: Mapping[str, str], cwd: Path | None, logs: Path
) -> Twin:
    """Capture a program both ways and return how they agree."""
    without = capture(words, gpus=0, logdir=logs / "0", environment=environment, cwd=cwd)
    emulated = capture(words, gpus=1, logdir=logs / "1", environment=environment, cwd=cwd)
    return compare(without, emulated)


def _show(twin: Twin) -> None:
    print(f"{twin.status}; {twin.predictions} findings")
    for name in _COLUMNS:
        ops = getattr(twin, name)
        print(f"{name}: {len(ops)}")
        for op in ops if name != "right" else ():
            print("   ", op)


def _programs(folder: Path) -> Iterator[tuple[str, Path, list[str], dict[str, str]]]:
    """Walk the programs of a folder: name, working directory, words, variables."""
    files = sorted(folder.glob("**/program.toml"))
    for file in files:
        settings: dict[str, Any] = tomllib.loads(file.read_text())
        module = settings.get("module")
        words = ["-m", module] if module else [settings["script"]]
        words += map(str, settings.get("arguments", []))
        variables: dict[str, str] = settings.get("environment", {})
        paths = os.pathsep.join(settings.get("pythonpath", []))
        yield settings["name"], file.parent, words, {**variables, "PYTHONPATH": paths}
    for script in sorted(folder.glob("[!_]*.py")) if not files else ():
        yield script.stem, folder, [script.name], {}


def _table(kept: Path, folders: Sequence[str]) -> int:
    print(f"| program | {' | '.join(_COLUMNS)} | status |")
    print("|" + " --- |" * (len(_COLUMNS) + 2))
    totals = dict.fromkeys(_COLUMNS, 0)
    for name, folder, words, environment in (p for f in folders for p in _programs(Path(f))):
        twin = _twin(words, environment, folder, kept / name)
        counts = {column: len(getattr(twin, column)) for column in _COLUMNS}
        shown = " | ".join(map(str, counts.values()))
        print(f"| {name} | {shown} | {twin.status} |", flush=True)
        for kind in ("wrong", "missed"):
            for op in getattr(twin, kind):
                print(f"{name}: {kind}: {op}", file=sys.stderr, flush=True)
        if twin.is_whole:  # what was compared in part is no agreement
            totals = {column: totals[column] + counts[column] for column in _COLUMNS}
    print(f"| compared as a whole | {' | '.join(map(str, totals.values()))} | |")
    return totals["wrong"] + totals["missed"]


def main(words: Sequence[str]) -> int:
    """Do what is asked."""
    if not words:
        print(__doc__)
        return 2
    if words[0] == "--table":
        return 1 if _table(Path(words[1]), words[2:]) else 0
    with tempfile.TemporaryDirectory(prefix="twin-") as folder:
        twin = _twin(words, {}, None, Path(folder))
    _show(twin)
    return 1 if twin.wrong or twin.missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

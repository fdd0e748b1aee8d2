"""Texts and names are plain; `python -m tests.architecture.prose` lists those that are not."""

import ast
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.prose import complaints_about, sources
from tests.architecture.toolchain import ROOT

PARTS: Final = sorted(
    {*(path for path in (ROOT / "traceanalyzer").iterdir() if path.name[:2] != "__")}
    | {ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")}
)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_words_and_names_are_plain(part: Path) -> None:
    assert [line for file in sources([part]) for line in complaints_about(file)] == []


def test_no_two_classes_share_a_name() -> None:
    names = Counter(
        node.name
        for file in (ROOT / "traceanalyzer").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_each_kind_of_fault_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        '"""What of it is told by the trace.\n\nNone where the\nkind is none."""\n'
        "def dearest_op(held):  # likewise\n"
        '    return f"{held} is " "told anew; the newest else."\n'
        "told = None if held is None else value.told(the.way)  # something else.\n"
    )
    found = [line.removeprefix(f"{file}:").split(": ")[:2] for line in complaints_about(file)]
    assert found == [
        *(["1", "What of"], ["1", "told"], ["4", "is none"]),
        *(["5", "dearest_op"], ["5", "held"], ["5", "likewise"]),
        *(["6", "anew"], ["6", "else"], ["6", "told"], ["7", "told"]),
    ]

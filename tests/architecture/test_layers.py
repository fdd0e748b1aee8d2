"""Each contract on imports breaks when it should: a copy of the package is made to offend."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.architecture.toolchain import LINT_IMPORTS, ROOT, complaints

if TYPE_CHECKING:
    from pathlib import Path

FLOW = "Imports follow the flow: bytes, columns, tables, causes, report"
WITHOUT_TENSORFLOW = "A report is read without TensorFlow, TensorBoard and protobuf"
RECORDER = "Only the program that is recorded loads the recorder"
CAUSES = "A cause knows no other cause"
PAGES = "Only the report writes pages"
TERMINAL = "Only the report and the command line write to the terminal"
READER = "The reader knows columns, not dataframes"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Copy what import-linter reads."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(
        ROOT / "traceanalyzer",
        tmp_path / "traceanalyzer",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    return tmp_path


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("tables/steps.py", "from traceanalyzer.report import page", FLOW),
        ("capturing/command.py", "import traceanalyzer.capturing.recorder", RECORDER),
        ("utils.py", "", FLOW),
        ("run.py", "import tensorflow", WITHOUT_TENSORFLOW),
        ("causes/python_callback.py", "from traceanalyzer.causes import host_pipeline", CAUSES),
        ("diagnosis.py", "import jinja2", PAGES),
        ("run.py", "import click", TERMINAL),
        ("trace/columns.py", "import pandas as pd", READER),
    ],
)
def test_breaks_on(copy: Path, module: str, line: str, contract: str) -> None:
    with (copy / "traceanalyzer" / module).open("a") as file:
        file.write(f"\n{line}\n")
    found = complaints(*LINT_IMPORTS, folder=copy)
    broken = found.partition("Broken contracts")[2] or found
    assert contract in broken, found or "every contract was kept"


def test_knows_each_contract() -> None:
    configuration = (ROOT / "pyproject.toml").read_text()
    for contract in (FLOW, WITHOUT_TENSORFLOW, RECORDER, CAUSES, PAGES, TERMINAL, READER):
        assert f'name = "{contract}"' in configuration
    assert configuration.count("[[tool.importlinter.contracts]]") == 7

"""Each contract on imports breaks when it should: a copy of the package is made to offend."""

import shutil
import tomllib
from pathlib import Path
from typing import Final

from tests.architecture.toolchain import LINT_IMPORTS, ROOT, complaints

# By contract: a module, an import that it must not have, and how the offence is reported.
OFFENCES: Final = {
    "Imports follow the flow: bytes, columns, tables, causes, report": (
        "tables/steps.py",
        "from traceanalyzer.report import html",
        "traceanalyzer.tables.steps -> traceanalyzer.report.html",
    ),
    "A report is read without TensorFlow, TensorBoard and protobuf": (
        "run.py",
        "import tensorflow",
        "traceanalyzer.run -> tensorflow",
    ),
    "Only the program that is recorded loads the recorder": (
        "capturing/script.py",
        "import traceanalyzer.capturing.recorder",
        "traceanalyzer.capturing.script -> traceanalyzer.capturing.recorder",
    ),
    "A cause knows no other cause": (
        "causes/python_callback.py",
        "from traceanalyzer.causes import host_pipeline",
        "traceanalyzer.causes.python_callback -> traceanalyzer.causes.host_pipeline",
    ),
    "Only the report writes pages": (
        "diagnosis.py",
        "import jinja2",
        "traceanalyzer.diagnosis -> jinja2",
    ),
    "Only the report and the command line write to the terminal": (
        "run.py",
        "import click",
        "traceanalyzer.run -> click",
    ),
    "The reader knows columns, not dataframes": (
        "trace/columns.py",
        "import pandas as pd",
        "traceanalyzer.trace.columns -> pandas",
    ),
}


def copied(folder: Path) -> Path:
    shutil.copy(ROOT / "pyproject.toml", folder)
    ignored = shutil.ignore_patterns("__pycache__")
    return shutil.copytree(ROOT / "traceanalyzer", folder / "traceanalyzer", ignore=ignored)


def test_each_contract_breaks_on_an_offence(tmp_path: Path) -> None:
    package = copied(tmp_path)
    for module, line, _ in OFFENCES.values():
        with (package / module).open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")
    found = complaints(*LINT_IMPORTS, folder=tmp_path).partition("Broken contracts")[2]
    for contract, (_, _, offence) in OFFENCES.items():
        assert contract in found
        assert offence in found


def test_a_module_without_a_place_is_an_offence(tmp_path: Path) -> None:
    (copied(tmp_path) / "utils.py").touch()
    assert "traceanalyzer.utils" in complaints(*LINT_IMPORTS, folder=tmp_path)


def test_there_is_an_offence_for_each_contract() -> None:
    configuration = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = configuration["tool"]["importlinter"]["contracts"]
    assert {contract["name"] for contract in contracts} == OFFENCES.keys()

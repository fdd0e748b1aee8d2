"""The glossary that `traceanalyzer explain --terms` prints."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from traceanalyzer.cli import cli

# The terms that reports use without a definition beside them.
TERMS = ["op", "kernel", "step", "requested device", "GPU wait", "certainty", "explained"]


def printed(*options: str) -> str:
    return CliRunner(env={"COLUMNS": None}).invoke(cli, ["explain", "--terms", *options]).output


@pytest.mark.parametrize("term", TERMS)
def test_defines_the_terms_of_reports(term: str) -> None:
    (line,) = [line for line in printed().splitlines() if line.startswith(f"{term}  ")]
    assert line.endswith(".")
    assert json.loads(printed("--json"))[term] in " ".join(line.split("  "))


def test_prints_either_a_cause_or_the_terms() -> None:
    assert CliRunner().invoke(cli, ["explain", "no_gpu_kernel", "--terms"]).exit_code != 0

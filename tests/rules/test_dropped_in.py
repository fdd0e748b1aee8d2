"""A file that is put among the rules is a rule: found, documented, tested, with no other edit."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from tests.architecture.toolchain import ROOT
from traceanalyzer import rules
from traceanalyzer.cli import cli
from traceanalyzer.diagnosis import diagnose
from traceanalyzer.rules import Example, all_rules

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Finds ops of one name; `{fires}` is what its example says that it finds.
DROPPED = '''\
"""Ops named zap ran on the CPU.

## What it detects

Zaps.

## Why it happens

Nobody knows.

## How to fix it

Do without.

## How sure it is

Not at all.
"""

from traceanalyzer.findings import Finding
from traceanalyzer.model import Evidence
from traceanalyzer.rules._rule import Example, Rule


def _check(run):
    zaps = run.ops[run.ops["name"] == "zap"]
    if len(zaps):
        yield Finding(
            cause=RULE.id,
            scope="",
            certainty="possible",
            harm="harmless",
            title="A zap ran on the CPU",
            why="It is one.",
            op_ids=tuple(zaps["op_id"]),
            evidence=(Evidence(kind="type", text="it is named zap"),),
        )


RULE = Rule(
    id="{id}",
    title="Ops named zap",
    documentation=__doc__,
    check=_check,
    examples=(
        Example(title="a zap", ops=({{"name": "zap", "type": "MatMul"}},), fires_on=({fires})),
        Example(title="none", ops=({{"name": "mm", "type": "MatMul"}},)),
    ),
)
'''
RAISING = '''\
"""A rule that raises."""

from traceanalyzer.rules._rule import Rule


def _raise(*_):
    raise ZeroDivisionError("of a rule")


RULE = Rule(id="{id}", title="It raises", documentation=__doc__, {part}=_raise)
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A second folder whose files are rules of the package."""
    monkeypatch.setattr(rules, "__path__", [*rules.__path__, str(tmp_path)])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith(f"{rules.__name__}."):
            del sys.modules[name]
            monkeypatch.delattr(rules, name.rpartition(".")[2], raising=False)


def drop(folder: Path, text: str, name: str, **fields: Any) -> None:  # noqa: ANN401 - texts
    (folder / f"{name}.py").write_text(text.format(id=name, **fields))


def test_it_is_found_and_applied(folder: Path) -> None:
    before = [rule.id for rule in all_rules()]
    drop(folder, DROPPED, "zap", fires='"zap",')

    assert [rule.id for rule in all_rules()] == sorted([*before, "zap"])
    found = diagnose(Example(title="", ops=({"name": "zap", "type": "MatMul"},)).run())
    assert [f.cause for f in found.findings] == ["zap"]
    assert {o.cause: o.status for o in found.outcomes}["zap"] == "fired"


def test_it_is_documented(folder: Path) -> None:
    drop(folder, DROPPED, "zap", fires='"zap",')

    listed = CliRunner().invoke(cli, ["explain"]).output
    page = CliRunner().invoke(cli, ["explain", "zap"])

    assert re.search(r"\bzap\b", listed)
    assert page.exit_code == 0
    assert "Nobody knows." in page.output


@pytest.mark.parametrize("part", ["check", "recognises", "not_applicable"])
def test_one_that_raises_fails_alone(folder: Path, part: str) -> None:
    drop(folder, DROPPED, "zap", fires='"zap",')
    drop(folder, RAISING, "broken", part=part)
    # The second one is explained by what a trace alone tells.
    ops = ({"name": "zap", "type": "MatMul"}, {"name": "shuffle", "type": "RandomShuffle"})

    found = diagnose(Example(title="", ops=ops).run())

    outcomes = {o.cause: o for o in found.outcomes}
    assert outcomes["broken"].status == "failed"
    assert outcomes["broken"].reason == "ZeroDivisionError: of a rule"
    assert [o.cause for o in found.outcomes if o.status == "failed"] == ["broken"]
    assert {f.cause for f in found.findings} == {"zap", "no_gpu_kernel"}


def test_its_examples_are_tested(tmp_path: Path) -> None:
    """By the same tests as all: in a copy of the package, where one rule's example is wrong."""
    ours = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "traceanalyzer", tmp_path / "traceanalyzer", ignore=ours)
    shutil.copy(ROOT / "tests" / "rules" / "test_rules.py", tmp_path / "test_rules.py")
    drop(tmp_path / "traceanalyzer" / "rules", DROPPED, "zap", fires='"zap",')
    drop(tmp_path / "traceanalyzer" / "rules", DROPPED, "zip", fires="")

    # `-m` puts the working directory first: the copy is what is imported.
    options = ("-q", "-p", "no:cacheprovider", "-k", "zap or zip", "test_rules.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    failed = re.findall(r"^FAILED test_rules.py::(\S+)\[(\w+)", done.stdout, re.MULTILINE)
    assert {rule for _, rule in failed} == {"zip"}, done.stdout
    assert ("test_it_names_just_the_ops_of_its_example", "zip") in failed
    assert re.search(r"\b[1-9]\d* passed", done.stdout)

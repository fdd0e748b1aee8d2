"""A file that is put among the rules is a rule: found, documented, tested, with no other edit."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from traceanalyzer import rules
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

"""A new file among the causes is found and applied without another edit."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.causes.examples import Example
from traceanalyzer import causes
from traceanalyzer.causes import all_causes
from traceanalyzer.diagnosis import diagnose

# Finds ops of one name.
DROPPED = '''\
"""Ops named zap."""

from traceanalyzer.findings import Finding
from traceanalyzer.model import Evidence


def check(run):
    zaps = run.ops[run.ops["name"] == "zap"]
    if len(zaps):
        yield Finding(
            cause="zap",
            scope="",
            certainty="possible",
            harm="harmless",
            title="A zap ran on the CPU",
            why="It is one.",
            op_ids=tuple(zaps["op_id"]),
            evidence=(Evidence(kind="type", text="it is named zap"),),
        )
'''
RAISING = '''\
"""A cause that raises."""

def {part}(*_):
    raise ZeroDivisionError("of a cause")
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A second folder whose files are causes of the package."""
    monkeypatch.setattr(causes, "__path__", [*causes.__path__, str(tmp_path)])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith(f"{causes.__name__}."):
            del sys.modules[name]
            monkeypatch.delattr(causes, name.rpartition(".")[2], raising=False)


def drop(folder: Path, text: str, name: str) -> None:
    (folder / f"{name}.py").write_text(text)


def test_it_is_found_and_applied(folder: Path) -> None:
    before = [cause.id for cause in all_causes()]
    drop(folder, DROPPED, "zap")

    assert [cause.id for cause in all_causes()] == sorted([*before, "zap"])
    found = diagnose(Example(title="", ops=({"name": "zap", "type": "MatMul"},)).run())
    assert [f.cause for f in found.findings] == ["zap"]
    assert {o.cause: o.status for o in found.outcomes}["zap"] == "fired"


@pytest.mark.parametrize("part", ["check", "match", "not_applicable"])
def test_one_that_raises_fails_alone(folder: Path, part: str) -> None:
    drop(folder, DROPPED, "zap")
    drop(folder, RAISING.format(part=part), "broken")
    # A trace alone explains the second one.
    ops = ({"name": "zap", "type": "MatMul"}, {"name": "shuffle", "type": "RandomShuffle"})

    found = diagnose(Example(title="", ops=ops).run())

    outcomes = {o.cause: o for o in found.outcomes}
    assert outcomes["broken"].status == "failed"
    assert outcomes["broken"].reason == "ZeroDivisionError: of a cause"
    assert [o.cause for o in found.outcomes if o.status == "failed"] == ["broken"]
    assert {f.cause for f in found.findings} == {"zap", "no_gpu_kernel"}

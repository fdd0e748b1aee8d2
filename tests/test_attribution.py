"""From what keeps ops on the CPU to findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.attribution import attribute
from traceanalyzer.evidence.analysis import Analysis
from traceanalyzer.evidence.cases import Case
from traceanalyzer.evidence.examples import held, line, subject
from traceanalyzer.rules import Example, all_rules

if TYPE_CHECKING:
    from traceanalyzer.evidence.analysis import Subject
    from traceanalyzer.findings import Finding


def causes(case: Case) -> list[tuple[str, str]]:
    run = Example(title="", ops=({"name": "Eig", "type": "Eig"},)).run()
    analysis = Analysis(run=run, machine=None, subjects=(subject("Eig", case=case),))
    findings, failed = attribute(analysis, all_rules())
    assert not failed
    return [(f.cause, f.certainty) for f in findings]


def test_what_holds_an_op_is_its_cause() -> None:
    case = Case(type="Eig", held=(held("no_kernel", "Eig"),), basis="replay", certainty="certain")
    assert causes(case) == [("no_gpu_kernel", "certain")]


def test_an_op_that_the_replay_contradicts_stays_unexplained() -> None:
    case = Case(
        type="Eig",
        held=(held("no_kernel", "Eig"),),
        basis="replay",
        certainty="certain",
        contradiction="a replay puts it elsewhere",
    )
    assert causes(case) == []


def scoped(op_id: str, number: int) -> Subject:
    """An op on the CPU by a scope of `train_step` that a line opens."""
    asks = held("request", "Exp", asked="/device:CPU:0", scope="/CPU:0", scope_frame=line(number))
    case = Case(type="Exp", held=(asks,), basis="replay", certainty="certain", is_complete=True)
    return subject("Exp", op_id=op_id, line=number + 1, case=case)


def findings_of(*subjects: Subject) -> dict[tuple[str, ...], Finding]:
    run = Example(title="", ops=({"name": "Exp", "type": "Exp"},)).run()
    found, failed = attribute(Analysis(run=run, machine=None, subjects=subjects), all_rules())
    assert not failed
    return {finding.op_ids: finding for finding in found}


def test_each_scope_of_a_function_has_a_finding() -> None:
    found = findings_of(scoped("late", 9), scoped("early", 6), scoped("again", 9))

    assert found.keys() == {("late", "again"), ("early",)}
    assert "train.py:9" in found["late", "again"].title
    assert "train.py:6" not in found["late", "again"].title


def test_findings_of_several_scopes_keep_their_ids_when_lines_move() -> None:
    before = findings_of(scoped("late", 9), scoped("early", 6))
    after = findings_of(scoped("early", 106), scoped("late", 112))

    assert {ids: f.id for ids, f in before.items()} == {ids: f.id for ids, f in after.items()}
    assert len({f.id for f in before.values()}) == 2
    assert findings_of(scoped("early", 6))["early",].id == before["early",].id

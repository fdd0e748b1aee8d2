"""TensorFlow moves no op because of memory, contention or cost, and no text of ours says so.

`tests.test_corpus_reports` asks the same of the reports on old traces.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import pytest

from tests.report.claims import claims, claims_of_report, texts
from tests.samples import CASES, REPORTS
from traceanalyzer.rules import all_rules

if TYPE_CHECKING:
    from tests.samples import Case
    from traceanalyzer.rules import Rule


@pytest.mark.parametrize(
    "claim",
    [
        "TensorFlow moved MatMul to the CPU because GPU memory was short.",
        "The op fell back to the CPU due to memory pressure.",
        "Under contention for the GPU, the runtime placed Add on the CPU.",
        "The placer put it on the CPU, since that is cheaper.",
        "TensorFlow's cost model chose the CPU for such small tensors.",
        "It ran on the CPU because the GPU was busy.",
        "TensorFlow ran the program's MatMul on the CPU, as memory was short.",
        "A heuristic of Grappler offloads it to the host.",
        "First a sentence. TensorFlow finds the CPU faster\nand runs it there. And a last one.",
    ],
)
def test_a_false_reason_is_seen(claim: str) -> None:
    """Else the tests below could not fail."""
    assert len(claims(claim)) == 1


@pytest.mark.parametrize(
    "sentence",
    [
        "It has no mechanism that moves an op to the CPU because of memory, load or cost.",
        "The op is placed on the GPU and computed in host memory.",
        "The program itself went on on the CPU when the GPU's memory was exhausted.",
        "TensorFlow obeys a request for the CPU, whatever kernels an op has.",
        "This op costs 3 ms.",
    ],
)
def test_what_is_true_may_be_said(sentence: str) -> None:
    assert claims(sentence) == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_committed_report_gives_one(case: Case) -> None:
    folder = REPORTS / case.name
    document, page = ((folder / f"report.{kind}").read_text() for kind in ("json", "html"))

    assert claims_of_report(document, page) == []


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_no_page_of_a_cause_gives_one(rule: Rule) -> None:
    assert claims(f"{rule.title}.\n\n{rule.documentation}") == []


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_no_finding_of_a_rule_gives_one(rule: Rule) -> None:
    """Of its own examples: what the reports at hand do not have."""
    said = [asdict(found) for example in rule.examples for found in rule.check(example.run())]
    if rule.words is not None:
        fired = [(e.subject, e.held) for e in rule.blocker_examples if e.fires]
        said += [asdict(rule.words([each])) for each in fired]

    assert said
    for told in said:
        assert [claim for text in texts(told) for claim in claims(text)] == []

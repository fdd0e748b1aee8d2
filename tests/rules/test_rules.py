"""Every rule, by the same tests: its examples, its documentation, its manners."""

from __future__ import annotations

import re
import sys

import pandas as pd
import pytest

from traceanalyzer.findings import Finding
from traceanalyzer.rules import Example, Rule, all_rules

HEADINGS = ["What it detects", "Why it happens", "How to fix it", "How sure it is"]
RULES = all_rules()
EXAMPLES = [(rule, example) for rule in RULES for example in rule.examples]

every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
every_example = pytest.mark.parametrize(
    ("rule", "example"), EXAMPLES, ids=[f"{r.id}: {e.title}" for r, e in EXAMPLES]
)


def findings(rule: Rule, example: Example) -> list[Finding]:
    """What the rule finds, where the question arises."""
    run = example.run()
    return [] if rule.not_applicable(run) is not None else list(rule.check(run))


@every_example
def test_it_names_just_the_ops_of_its_example(rule: Rule, example: Example) -> None:
    names = dict(zip(*(example.run().ops[c] for c in ("op_id", "name")), strict=True))

    named = [names[op_id] for found in findings(rule, example) for op_id in found.op_ids]

    assert sorted(named) == sorted(example.fires_on)


@every_example
def test_it_leaves_the_tables_as_they_are(rule: Rule, example: Example) -> None:
    run = example.run()
    before = {name: table.copy() for name, table in tables(run).items()}

    list(rule.check(run))

    for name, table in tables(run).items():
        pd.testing.assert_frame_equal(table, before[name])


@every_example
def test_its_findings_are_whole(rule: Rule, example: Example) -> None:
    found = findings(rule, example)

    assert len({f.id for f in found}) == len(found)
    for one in found:
        assert one.cause == rule.id
        assert one.op_ids
        assert one.evidence
        assert one.title.strip()
        assert one.why.strip()
        assert one.certainty in {"certain", "likely", "possible"}
        assert one.harm in {"harmful", "harmless", "by_design"}
        assert re.fullmatch(r"[0-9a-f]{10}", one.id)


@every_example
def test_it_finds_the_same_again(rule: Rule, example: Example) -> None:
    assert findings(rule, example) == findings(rule, example)


@every_rule
def test_it_has_examples_of_both_kinds(rule: Rule) -> None:
    assert {bool(example.fires_on) for example in rule.examples} == {True, False}
    titles = [example.title for example in rule.examples]
    assert len(set(titles)) == len(titles)


@every_rule
def test_its_documentation_has_every_chapter_in_order(rule: Rule) -> None:
    lines = rule.documentation.strip().splitlines()

    assert lines[0].endswith(".")
    assert [line.removeprefix("## ") for line in lines if line.startswith("#")] == HEADINGS
    chapters = re.split(r"^## .*$", rule.documentation, flags=re.MULTILINE)[1:]
    assert all(chapter.strip() for chapter in chapters)


@every_rule
def test_it_is_called_after_its_module(rule: Rule) -> None:
    module = sys.modules[f"traceanalyzer.rules.{rule.id}"]

    assert module.RULE is rule
    assert module.__doc__ == rule.documentation
    assert rule.title.strip()


@every_rule
def test_it_never_speaks_of_a_mechanism_that_tensorflow_lacks(rule: Rule) -> None:
    """TensorFlow moves no op for memory, contention or cost."""
    texts = [rule.documentation, rule.title]
    for example in rule.examples:
        for found in findings(rule, example):
            texts += [found.title, found.why, *(e.text for e in found.evidence)]
    for text in texts:
        assert not re.search(r"memory pressure|contention|cost model|cheaper|out of memory", text)


def test_rules_come_in_order_of_their_ids_and_none_is_missing() -> None:
    ids = [rule.id for rule in RULES]

    assert ids == sorted(ids)
    assert len(set(ids)) == len(ids)
    assert {"host_pipeline", "no_gpu_visible", "python_callback"} <= set(ids)


def test_a_finding_without_evidence_is_refused() -> None:
    with pytest.raises(ValueError, match="some_cause: a finding needs evidence"):
        Finding(
            cause="some_cause",
            scope="",
            certainty="likely",
            harm="harmful",
            title="t",
            why="w",
            op_ids=("op0",),
            evidence=(),
        )


def tables(run: object) -> dict[str, pd.DataFrame]:
    names = ("ops", "kernels", "copies", "allocations", "steps")
    return {name: getattr(run, name) for name in names}

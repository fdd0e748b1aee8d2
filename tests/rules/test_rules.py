"""Every rule, by the same tests: its examples, its documentation, its manners."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from traceanalyzer.findings import Finding
from traceanalyzer.rules import BlockerExample, Example, Mark, Rule, Words, all_rules

if TYPE_CHECKING:
    from traceanalyzer.sidecar.document import Frame

HEADINGS = ["What it detects", "Why it happens", "How to fix it", "How sure it is"]
RULES = all_rules()
EXAMPLES = [(rule, example) for rule in RULES for example in rule.examples]
BLOCKERS = [(rule, example) for rule in RULES for example in rule.blocker_examples]
FIRING = [(rule, example) for rule, example in BLOCKERS if example.fires]

every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
every_example = pytest.mark.parametrize(
    ("rule", "example"), EXAMPLES, ids=[f"{r.id}: {e.title}" for r, e in EXAMPLES]
)


every_blocker = pytest.mark.parametrize(
    ("rule", "example"), BLOCKERS, ids=[f"{r.id}: {e.title}" for r, e in BLOCKERS]
)
every_firing_blocker = pytest.mark.parametrize(
    ("rule", "example"), FIRING, ids=[f"{r.id}: {e.title}" for r, e in FIRING]
)


def findings(rule: Rule, example: Example) -> list[Finding]:
    """What the rule finds, where the question arises."""
    run = example.run()
    return [] if rule.not_applicable(run) is not None else list(rule.check(run))


@every_example
def test_it_names_just_the_ops_of_its_example_and_its_findings_are_whole(
    rule: Rule, example: Example
) -> None:
    names = dict(zip(*(example.run().ops[c] for c in ("op_id", "name")), strict=True))
    found = findings(rule, example)

    assert sorted(names[i] for f in found for i in f.op_ids) == sorted(example.fires_on)
    assert len({f.id for f in found}) == len(found)
    for one in found:
        assert one.cause == rule.id
        assert one.op_ids
        assert one.evidence
        assert one.title.strip()
        assert one.why.strip()


@every_blocker
def test_it_knows_just_what_is_of_its_cause(rule: Rule, example: BlockerExample) -> None:
    known = [r.id for r in RULES if r.recognises(example.subject, example.held) is not None]

    assert (rule.id in known) == example.fires
    assert len(known) <= 1


@every_firing_blocker
def test_its_mark_is_whole_and_shows_what_it_rests_on(rule: Rule, example: BlockerExample) -> None:
    found = mark(rule, example)

    assert found.evidence
    assert all(e.kind.strip() and e.text.strip() for e in found.evidence)
    assert len(set(found.evidence)) == len(found.evidence)
    assert found.certainty in {"certain", "likely", "possible"}
    assert found == mark(rule, example)


@every_firing_blocker
def test_its_scope_stays_when_lines_move(rule: Rule, example: BlockerExample) -> None:
    """Lines above an op come and go; a function is numbered anew with each trace of it."""
    moved = replace(
        example,
        subject=replace(example.subject, op_id="op9", line=example.subject.line and 1234),
        held=replace(
            example.held,
            frame=below(example.held.frame),
            scope_frame=below(example.held.scope_frame),
            function=re.sub(r"_\d+$", "_4711", example.held.function),
        ),
    )

    before, after = mark(rule, example), mark(rule, moved)

    assert before.scope == after.scope
    assert before.sub_reason == after.sub_reason


@every_firing_blocker
def test_its_words_are_whole(rule: Rule, example: BlockerExample) -> None:
    found = words(rule, example)

    assert found.title.strip()
    assert not found.title.endswith(".")
    assert "\n" not in found.title
    assert found.why.strip().endswith(".")
    assert found.harm in {"harmful", "harmless", "by_design"}
    assert {*found.modifiers} <= {"soft_placement_fallback"}
    assert len(set(found.fixes)) == len(found.fixes)
    for fix in found.fixes:
        assert fix.text.strip()
        assert fix.code is None or fix.code.strip()
    if found.harm == "harmful":
        assert found.fixes, "what does harm needs something to do about it"


@every_rule
def test_its_documentation_has_every_chapter_in_order(rule: Rule) -> None:
    lines = rule.documentation.strip().splitlines()

    assert lines[0].endswith(".")
    assert [line.removeprefix("## ") for line in lines if line.startswith("#")] == HEADINGS
    chapters = re.split(r"^## .*$", rule.documentation, flags=re.MULTILINE)[1:]
    assert all(chapter.strip() for chapter in chapters)


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


def mark(rule: Rule, example: BlockerExample) -> Mark:
    """What the rule says of an example that is of its cause."""
    found = rule.recognises(example.subject, example.held)
    assert found is not None
    return found


def words(rule: Rule, example: BlockerExample) -> Words:
    """What it says of an op that has the cause first of all."""
    assert rule.words is not None
    return rule.words([(example.subject, example.held)])


def below(frame: Frame | None) -> Frame | None:
    """The same line, some lines further down."""
    return None if frame is None else replace(frame, line=frame.line + 100)

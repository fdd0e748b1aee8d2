"""Every cause, by the same tests: its examples in `CAUSE.toml`, its documentation, its texts."""

import re
from dataclasses import replace

import pytest

from tests.causes.examples import FOLDER, BlockerExample, Example, examples_of
from traceanalyzer.capture_file.document import Frame
from traceanalyzer.causes import BlockedOps, Cause, CauseMatch, FindingText, all_causes
from traceanalyzer.findings import Finding
from traceanalyzer.model import Fix

HEADINGS = ["What it detects", "Why it happens", "How to fix it", "How sure it is"]
CAUSES = all_causes()
EXAMPLES = [(cause, example) for cause in CAUSES for example in examples_of(cause.id)[0]]
BLOCKERS = [(cause, example) for cause in CAUSES for example in examples_of(cause.id)[1]]
MATCHING = [(cause, example) for cause, example in BLOCKERS if example.fires]

every_cause = pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.id)
every_example = pytest.mark.parametrize(
    ("cause", "example"), EXAMPLES, ids=[f"{r.id}: {e.title}" for r, e in EXAMPLES]
)


every_blocker = pytest.mark.parametrize(
    ("cause", "example"), BLOCKERS, ids=[f"{r.id}: {e.title}" for r, e in BLOCKERS]
)
every_matching_blocker = pytest.mark.parametrize(
    ("cause", "example"), MATCHING, ids=[f"{r.id}: {e.title}" for r, e in MATCHING]
)


def findings(cause: Cause, example: Example) -> list[Finding]:
    """Return the findings of a cause, if it is applicable."""
    run = example.run()
    return [] if cause.why_not(run) is not None else list(cause.check(run))


@every_example
def test_it_names_just_the_ops_of_its_example_and_its_findings_are_whole(
    cause: Cause, example: Example
) -> None:
    names = dict(zip(*(example.run().ops[c] for c in ("op_id", "name")), strict=True))
    found = findings(cause, example)

    assert sorted(names[i] for f in found for i in f.op_ids) == sorted(example.fires_on)
    assert len({f.id for f in found}) == len(found)
    for one in found:
        assert one.cause == cause.id
        assert one.op_ids
        assert one.evidence
        assert one.title.strip()
        assert one.why.strip()


@every_blocker
def test_it_matches_only_its_own_blockers(cause: Cause, example: BlockerExample) -> None:
    known = [r.id for r in CAUSES if r.match(example.cpu_op, example.blocker) is not None]

    assert (cause.id in known) == example.fires
    assert len(known) <= 1


@every_matching_blocker
def test_its_match_is_whole_and_has_evidence(cause: Cause, example: BlockerExample) -> None:
    found = match(cause, example)

    assert found.evidence
    assert all(e.kind.strip() and e.text.strip() for e in found.evidence)
    assert len(set(found.evidence)) == len(found.evidence)
    assert found.certainty in {"certain", "likely", "possible"}
    assert found == match(cause, example)


@every_matching_blocker
def test_its_scope_stays_when_lines_move(cause: Cause, example: BlockerExample) -> None:
    """Lines above an op come and go; each trace of a function gives it another number."""
    moved = replace(
        example,
        cpu_op=replace(example.cpu_op, op_id="op9", line=example.cpu_op.line and 1234),
        blocker=replace(
            example.blocker,
            frame=below(example.blocker.frame),
            scope_frame=below(example.blocker.scope_frame),
            function=re.sub(r"_\d+$", "_4711", example.blocker.function),
        ),
    )

    before, after = match(cause, example), match(cause, moved)

    assert before.scope == after.scope
    assert before.sub_reason == after.sub_reason


@every_matching_blocker
def test_its_text_is_whole(cause: Cause, example: BlockerExample) -> None:
    found = text(cause, example)

    assert found.title.strip()
    assert not found.title.endswith(".")
    assert "\n" not in found.title
    assert found.why.strip().endswith(".")
    assert found.harm in {"harmful", "harmless", "by_design"}
    assert {*found.modifiers} <= {"soft_placement_fallback"}
    assert len(set(found.fixes)) == len(found.fixes)
    is_conditional = [fix.condition is not None for fix in found.fixes]
    assert is_conditional == sorted(is_conditional), "a fix under a condition never comes first"
    for fix in found.fixes:
        assert fix.text.strip()
        assert fix.code is None or fix.code.strip()
    if found.harm == "harmful":
        assert found.fixes, "a harmful finding needs a fix"


@pytest.mark.parametrize(
    ("cause", "example"),
    [(cause, example) for cause, example in MATCHING if example.finding],
    ids=[f"{cause.id}: {example.title}" for cause, example in MATCHING if example.finding],
)
def test_its_finding_says_what_the_example_expects(cause: Cause, example: BlockerExample) -> None:
    matched, found = match(cause, example), text(cause, example)
    fix = found.fixes[0] if found.fixes else Fix(text="")
    values = {
        "harm": found.harm,
        "certainty": matched.certainty,
        "sub_reason": matched.sub_reason,
        "modifiers": list(found.modifiers),
        "code": fix.code or "",
        "checked": fix.checked,
    }
    texts = {"title": found.title, "why": found.why, "fix": fix.text}

    for name, expected in example.finding.items():
        if name in texts:
            assert expected in texts[name]
        else:
            assert values[name] == expected, name


@every_cause
def test_its_examples_show_what_matches_and_what_does_not(cause: Cause) -> None:
    runs, blockers = examples_of(cause.id)

    assert runs or blockers
    for matches in ([bool(e.fires_on) for e in runs], [e.fires for e in blockers]):
        assert not matches or {*matches} == {True, False}
    assert bool(blockers) != cause.is_of_runs


def test_all_examples_belong_to_a_cause() -> None:
    assert {file.stem for file in FOLDER.glob("*.toml")} <= {cause.id for cause in CAUSES}


@every_cause
def test_its_documentation_has_every_chapter_in_order(cause: Cause) -> None:
    lines = cause.documentation.splitlines()

    assert lines[0] == f"{cause.title}."
    assert [line.removeprefix("## ") for line in lines if line.startswith("#")] == HEADINGS
    chapters = re.split(r"^## .*$", cause.documentation, flags=re.MULTILINE)[1:]
    assert all(chapter.strip() for chapter in chapters)


def match(cause: Cause, example: BlockerExample) -> CauseMatch:
    """Return the match of a blocker that belongs to the cause."""
    found = cause.match(example.cpu_op, example.blocker)
    assert found is not None
    return found


def text(cause: Cause, example: BlockerExample) -> FindingText:
    """Return the text about an op whose first blocker belongs to the cause."""
    return cause.described(BlockedOps(((example.cpu_op, example.blocker),)))


def below(frame: Frame | None) -> Frame | None:
    """The same line, some lines further down."""
    return None if frame is None else replace(frame, line=frame.line + 100)

"""The page and its changes as Markdown."""

import re
from pathlib import Path

from tests.report.made_changes import change
from tests.report.test_terminal import hostile
from tests.samples import sample
from traceanalyzer.check.budget import read_budget
from traceanalyzer.report.markdown import markdown_of, page_markdown
from traceanalyzer.report.page import page_of


def test_a_change_has_its_edit_as_a_diff_and_its_reason() -> None:
    found = sample("recommender")
    page = page_of(found, [change(found)])

    text = markdown_of(page)["change-a1"]

    assert text.startswith("### Create `asked` as int64\n\n`program.py:49` · up to 40.0")
    assert "verified by replaying TensorFlow's placer" in text
    diff = re.search(r"```diff\n(.*?)```", text, re.DOTALL)
    assert diff is not None
    assert [line[:2] for line in diff[1].splitlines()] == ["- ", "+ "]
    assert "int32 variables cannot be on the GPU." in text


def test_the_page_has_its_answer_its_step_and_its_changes() -> None:
    found = sample("recommender")
    text = page_markdown(page_of(found, [change(found)]))

    assert "**With a GPU, 46 of 52 ops would run on it" in text
    assert "On the GPU 46 (88.5" in text.replace("\N{NO-BREAK SPACE}", " ")
    assert "| 1 | Create `asked` as int64 | `program.py:49` |" in text
    assert "Glossary" not in text


def test_a_copied_entry_is_accepted_by_the_budget(tmp_path: Path) -> None:
    found = sample("recommender")
    texts = markdown_of(page_of(found, [change(found)]))
    entries = [text for key, text in texts.items() if key.startswith("accept-")]
    assert entries
    (tmp_path / "budget.toml").write_text("".join(entries), encoding="utf-8")
    assert len(read_budget(tmp_path / "budget.toml").accepted) >= len(entries)


def test_hostile_names_are_inert() -> None:
    text = page_markdown(hostile())

    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text, flags=re.DOTALL)
    assert not re.search(r"(?<!\\)<", outside)
    assert not any(character in text for character in "\x00\x07\x1b\x9b\u2028\u202e\u200b\ud800")
    for row in re.findall(r"^\|.*$", text, re.MULTILINE):
        assert row.endswith("|")


def test_the_page_is_a_review_of_few_lines() -> None:
    found = sample("recommender")
    many = [change(found, id=f"c{k}", why="It is so. " * 100) for k in range(80)]

    text = page_markdown(page_of(found, many))

    assert text.count("\n") <= 40
    shown = text.count("```diff")
    assert shown
    assert f"{80 - shown} more diffs on the page" in text


def test_code_is_fenced_as_what_it_is_and_sentences_are_text() -> None:
    found = sample("recommender")
    advice = "Check that the driver is installed.\nunset CUDA_VISIBLE_DEVICES\nnvidia-smi"
    shell = change(found, id="a", edits=(), instead=advice)
    python = change(found, id="b", edits=(), instead="@tf.function\ndef step(batch): ...")

    texts = markdown_of(page_of(found, [shell, python]))

    assert "\nCheck that the driver is installed.\n" in texts["change-a"]
    assert "```sh\nunset CUDA_VISIBLE_DEVICES\nnvidia-smi\n```" in texts["change-a"]
    assert "```python\n@tf.function\n" in texts["change-b"]

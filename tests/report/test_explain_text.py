"""`traceanalyzer explain`: the list of causes, the page of one, and names that are none."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len
from rich.console import Console

from traceanalyzer.cli import main
from traceanalyzer.report.explain_text import (
    UnknownCauseError,
    find_cause,
    print_cause,
    print_causes,
)
from traceanalyzer.rules import Rule, all_rules

if TYPE_CHECKING:
    from collections.abc import Callable

RULES = all_rules()
RULE = Rule(
    id="some_cause",
    title="Some cause",
    documentation=(
        "Some cause.\n\n## What it detects\n\nOps that\ndo so.\n\n- one\n  thing\n- another\n\n"
        "## Why it happens\n\nFirst.\n\nSecond:\n\n    with tf.device(x):\n        y = 1\n"
    ),
)


def printed(show: Callable[[Console], None], width: int = 80, **options: object) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None, **options)  # type: ignore[arg-type]
    show(console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as exit_:
        main(["explain", *arguments])
    out, err = capsys.readouterr()
    return int(exit_.value.code or 0), out, err


@pytest.mark.parametrize("width", [40, 80, 160])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_page_holds_every_word_of_the_documentation(rule: Rule, width: int) -> None:
    page = printed(lambda console: print_cause(rule, console), width)
    body = rule.documentation.partition("\n\n")[2].replace("## ", "")
    assert "".join(body.split()) in "".join(page.split())
    assert " ".join(page.split()).startswith(f"{rule.title} · {rule.id}")
    assert all(cell_len(line) <= width for line in page.splitlines())
    assert page.endswith("\n")


def test_paragraphs_lists_and_code_keep_their_form() -> None:
    lines = [s.rstrip() for s in printed(lambda c: print_cause(RULE, c)).splitlines()]
    assert lines == [
        "Some cause · some_cause",
        "",
        "What it detects",
        "Ops that do so.",
        "",
        "  - one thing",
        "  - another",
        "",
        "Why it happens",
        "First.",
        "",
        "Second:",
        "",
        "    with tf.device(x):",
        "        y = 1",
    ]


def test_the_list_has_every_cause_with_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys)
    assert (code, err) == (0, "")
    said = " ".join(out.split())
    assert all(f"{rule.id} {rule.title}" in said for rule in RULES)


@pytest.mark.parametrize("width", [20, 40, 80])
def test_the_list_keeps_within_the_terminal(width: int) -> None:
    listed = printed(lambda console: print_causes(RULES, console), width)
    assert all(cell_len(line) <= width for line in listed.splitlines())


@pytest.mark.parametrize(
    "name",
    ["no_gpu_kernel", "NO-GPU-KERNEL", " no gpu kernel ", "no_gpu_kernel/anything"],
)
def test_a_cause_is_found_as_reports_and_people_write_it(name: str) -> None:
    assert find_cause(name, RULES).id == "no_gpu_kernel"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("no_gpu_kernl", "no_gpu_kernel"),
        ("dtype", "dtype_unsupported"),
        ("explicit", "explicit_cpu_placement"),
        ("colocation", "colocation_group"),
    ],
)
def test_a_misspelt_cause_is_one_line_that_names_what_is_meant(
    capsys: pytest.CaptureFixture[str], name: str, meant: str
) -> None:
    code, out, err = run(capsys, name)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert repr(name) in err
    assert meant in err.partition("like it: ")[2]


@pytest.mark.parametrize("name", ["xyzzy", "", "[bold]\x1b[31m\nx"])
def test_a_name_like_none_is_told_where_the_list_is(name: str) -> None:
    with pytest.raises(UnknownCauseError, match="`traceanalyzer explain` lists all"):
        find_cause(name, RULES)


def test_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    _, listed, _ = run(capsys, "--json")
    assert [c["cause"] for c in json.loads(listed)] == [rule.id for rule in RULES]
    _, page, _ = run(capsys, "custom_op", "--json")
    rule = find_cause("custom_op", RULES)
    assert json.loads(page) == {
        "cause": "custom_op",
        "title": rule.title,
        "documentation": rule.documentation.strip(),
    }


def test_a_terminal_without_unicode() -> None:
    raw = io.BytesIO()
    console = Console(file=io.TextIOWrapper(raw, encoding="ascii", errors="strict"), width=80)
    for rule in (*RULES, replace(RULE, title="Ä[bold]")):
        print_cause(rule, console)
    print_causes(RULES, console)
    console.file.flush()
    assert b"[bold]" in raw.getvalue()


@pytest.mark.parametrize("options", [["-OO"], ["-OO", "--json"]])
def test_without_docstrings_there_is_one_line(options: list[str]) -> None:
    flag, *more = options
    command = [sys.executable, flag, "-m", "traceanalyzer", "explain", "no_gpu_kernel", *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "PYTHONOPTIMIZE=2" in line

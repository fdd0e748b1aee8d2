"""`traceanalyzer explain`: the list of causes, the page of one, and names that are none."""

import io
import json
from collections.abc import Callable

import pytest
from rich.cells import cell_len
from rich.console import Console

from traceanalyzer.causes import Cause, all_causes
from traceanalyzer.cli import main
from traceanalyzer.cli.explain_text import print_cause

RULES = all_causes()


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


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_page_holds_every_word_of_the_documentation(rule: Cause) -> None:
    page = printed(lambda console: print_cause(rule, console), 40)
    body = rule.documentation.partition("\n\n")[2].replace("## ", "")
    assert "".join(body.split()) in "".join(page.split())
    assert " ".join(page.split()).startswith(f"{rule.title} · {rule.id}")
    assert all(cell_len(line) <= 40 for line in page.splitlines())
    assert page.endswith("\n")


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
    assert meant in err.partition("similar: ")[2]


# The terms that reports use without a definition beside them.
TERMS = ["op", "kernel", "step", "requested device", "GPU wait", "certainty", "explained"]


def test_the_glossary_defines_the_terms_of_reports(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)  # pytest's workers may have it: lines would wrap
    _, out, _ = run(capsys, "--terms")
    known = json.loads(run(capsys, "--terms", "--json")[1])
    for term in TERMS:
        (line,) = [line for line in out.splitlines() if line.startswith(f"{term}  ")]
        assert line.endswith(".")
        assert known[term] in " ".join(line.split("  "))
    assert run(capsys, "no_gpu_kernel", "--terms")[0] == 2

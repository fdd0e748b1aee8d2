"""What the page's own scripts and templates must not hold, wherever a name from a trace may go."""

import re
from pathlib import Path

import pytest

from tests.architecture.toolchain import ROOT

REPORT = ROOT / "traceanalyzer" / "report"
SCRIPTS = sorted((REPORT / "web" / "src").glob("*.ts"))
TEMPLATES = sorted((REPORT / "templates").glob("*.html"))

# Text that would be read as markup or as a program, and what would ask for something.
FORBIDDEN_IN_SCRIPTS = {
    "markup from text": r"\b(inner|outer)HTML\b|\binsertAdjacentHTML\b|\bsetHTML(Unsafe)?\b"
    r"|\bdocument\s*\.\s*write(ln)?\b|\bDOMParser\b|\bcreateContextualFragment\b|\bsrcdoc\b",
    "a program from text": r"\beval\b|\bnew\s+Function\b|\bFunction\s*\(|javascript:"
    r"|\bset(Timeout|Interval)\s*\(\s*[\"'`]|\bexecScript\b",
    "a request": r"\bfetch\s*\(|\bXMLHttpRequest\b|\bimport\s*\(|\bWebSocket\b|\bEventSource\b"
    r"|\bsendBeacon\b|\bimportScripts\b|\bnew\s+(Shared)?Worker\b|\bnew\s+Image\b|https?://"
    r"|\.src\s*=[^=]",
    "an attribute that runs": r"setAttribute\(\s*[\"'`]on|\bon[a-z]+\s*=\s*[\"'`]",
}
FORBIDDEN_IN_TEMPLATES = {
    "unescaped text": r"\|\s*safe\b|autoescape|\bMarkup\b",
    "an inline style": r"\sstyle\s*=",
    "an attribute that runs": r"\son[a-z]+\s*=",
    "an address": r"(https?:)?//[a-z]|\s(src|srcset|action|xlink:href)\s*=",
}


def found(text: str, forbidden: dict[str, str]) -> dict[str, str]:
    matches = {what: re.search(pattern, text) for what, pattern in forbidden.items()}
    return {what: match.group() for what, match in matches.items() if match}


def without_comments(script: str) -> str:
    return re.sub(r"/\*.*?\*/|^\s*//.*$", "", script, flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_make_no_markup_no_program_and_no_request(path: Path) -> None:
    assert found(without_comments(path.read_text("utf-8")), FORBIDDEN_IN_SCRIPTS) == {}


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_hold_no_style_no_program_and_no_address(path: Path) -> None:
    text = re.sub(r"\{#.*?#\}|\{%.*?%\}", "", path.read_text("utf-8"), flags=re.DOTALL)
    assert found(text, FORBIDDEN_IN_TEMPLATES) == {}


def test_what_is_forbidden_is_seen() -> None:
    """Or a mistake in a pattern would let everything pass."""
    for script, what in (
        ("cell.innerHTML = name;", "markup from text"),
        ("setTimeout(`go()`, 1)", "a program from text"),
        ("picture.src = name", "a request"),
        ("e.setAttribute('onclick', name)", "an attribute that runs"),
    ):
        assert list(found(script, FORBIDDEN_IN_SCRIPTS)) == [what]
    template = '{{ name | safe }}<p style="color: red" onclick="go()"><img src="x">'
    assert found(template, FORBIDDEN_IN_TEMPLATES).keys() == FORBIDDEN_IN_TEMPLATES.keys()
    assert len(SCRIPTS) > 5
    assert len(TEMPLATES) == 2

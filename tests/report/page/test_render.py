"""Every page is well formed, complete in itself, and lets only its own scripts run."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from importlib import resources

import jinja2
import pytest

from tests.report.examples import EXAMPLES, cpu_only_run, empty_run, gpu_run
from tests.report.markup import Element, read
from traceanalyzer.report.page import assets
from traceanalyzer.report.page.render import environment, render_page
from traceanalyzer.report.text import visible

SECTIONS = [
    "verdict",
    "findings",
    "unexplained",
    "copies",
    "ops",
    "steps",
    "health",
    "devices",
    "rules",
    "method",
]

every_example = pytest.mark.parametrize("name", sorted(EXAMPLES))


@every_example
def test_a_page_is_well_formed_and_its_links_lead_somewhere(name: str) -> None:
    page = render_page(EXAMPLES[name]())
    document = read(page)
    assert visible(page.replace("\n", "")) == page.replace("\n", "")
    ids = [element.attributes["id"] for element in document.all() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    assert not [name for name in ids if name is None or re.search(r"\s", name)]
    links = [str(a.attributes["href"]) for a in document.all("a")]
    assert {link.partition("&")[0] for link in links} <= {f"#{name}" for name in ids}
    levels = [int(e.tag[1]) for e in document.all() if re.fullmatch("h[1-6]", e.tag)]
    assert levels[0] == levels.count(1) == 1
    assert all(deeper - level <= 1 for level, deeper in itertools.pairwise(levels))
    for table in document.all("table"):
        assert table.one("caption").text
        assert all(th.attributes.get("scope") in ("col", "row") for th in table.all("th"))
        width = len(list(table.one("thead").all("th")))
        rows = table.one("tbody").all("tr")
        assert {sum(isinstance(c, Element) for c in row.children) for row in rows} <= {width}
    sections = [s.attributes.get("id") for s in document.one("main").all("section")]
    assert [section for section in sections if section in SECTIONS] == SECTIONS


@every_example
def test_a_page_loads_nothing(name: str) -> None:
    page = render_page(EXAMPLES[name]())
    document = read(page)
    tags = {element.tag for element in document.all()}
    assert not tags & {"iframe", "object", "embed", "img", "link", "base", "form", "use"}
    for element in document.all():
        for attribute in element.attributes:
            assert not attribute.startswith("on")
            assert attribute not in ("style", "src", "srcset", "action", "xlink:href")
    style = document.one("style").raw
    assert "@import" not in style
    assert not re.search(r"url\((?!#)", style)
    if name != "hostile":  # its texts hold addresses
        # The name of SVG is no address, and in base64, as packed tables are, anything may stand.
        told = re.sub(r"(<script type=\"application/octet-stream\"[^>]*>)[^<]*", r"\1", page)
        told = told.replace("http://www.w3.org/2000/svg", "").replace("//#", "")
        assert not re.search(r"(https?:)?//[a-z]", told, re.IGNORECASE)


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@every_example
def test_the_policy_allows_the_own_style_and_scripts_and_nothing_else(name: str) -> None:
    document = read(render_page(EXAMPLES[name]()))
    policy = document.one("meta", http_equiv="Content-Security-Policy").attributes["content"]
    programs = [s.raw for s in document.all("script") if "type" not in s.attributes]
    assert programs == [assets.early_script(), assets.script()]
    assert policy == (
        f"default-src 'none'; style-src {digest(document.one('style').raw)}; "
        f"script-src {' '.join(map(digest, programs))}; base-uri 'none'; form-action 'none'"
    )
    head = document.one("head")
    order = [child.tag for child in head.children if isinstance(child, Element)]
    assert order.index("meta") < min(order.index("style"), order.index("script"))


def test_escaping_is_on_never_switched_off_and_an_unknown_name_raises() -> None:
    made = environment()
    assert made.autoescape is True
    folder = resources.files("traceanalyzer.report.page").joinpath("templates")
    templates = list(folder.iterdir())
    assert len(templates) > 20
    for template in templates:
        text = template.read_text(encoding="utf-8")
        assert not re.search(r"\|\s*safe\b|autoescape|\bstyle=", text), template.name
    with pytest.raises(jinja2.UndefinedError):
        made.from_string("{{ report.summary.verdicts }}").render(report=gpu_run())


# --- what it says -----------------------------------------------------------------------------


def test_unknown_is_never_zero_and_says_why() -> None:
    page = read(render_page(cpu_only_run()))
    verdict = page.one("section", id="verdict").text
    assert "Step time unknown no steps in this trace" in verdict
    assert "Explained unknown no GPU in this trace" in verdict
    empty = read(render_page(empty_run()))
    for name in SECTIONS[1:-1]:
        assert empty.one("section", id=name).one("p", class_="nothing").text

"""Names from traces do nothing, and the page is open to all readers."""

import re
from collections.abc import Callable

import pytest

from tests.report.example_explore import LOOKUP
from tests.report.example_page import example_page
from tests.report.hostile_page import hostile_page
from tests.report.page.looking import Window
from traceanalyzer.report.html import render_page

See = Callable[..., Window]

axe_core = pytest.importorskip(
    "axe_playwright_python.base",
    reason="axe-playwright-python is not installed: pip install -e '.[test]'",
)
TABS = ("timeline", "ops", "transfers", "scopes", "steps", "memory")
# All of WCAG 2.2, A and AA, and what axe-core's makers hold to be good practice besides.
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
AXE = """
([within, tags]) => axe.run(document.querySelector(within),
  { runOnly: { type: "tag", values: tags }, resultTypes: ["violations"] })
"""
OPEN_ALL = "() => document.querySelectorAll('details').forEach((d) => (d.open = true))"
HIDDEN = re.compile(
    "[\u202a-\u202e\u2066-\u2069\u200b-\u200f\ufeff\u2028\u2029\x00-\x08\x1b\x80-\x9f]"
)


def all_tabs(seen: Window) -> None:
    for tab in TABS:
        seen.run(f"() => document.querySelector('#tab-{tab}').click()")
        seen.run(f"() => document.querySelector('#{tab} .scripted').scrollIntoView()")
        seen.until(f"!document.querySelector('#{tab} .scripted .needs-scripts')")


def test_hostile_names_are_text_in_every_block(see: See) -> None:
    shape = """() => ["script", "img", "h2", ".card", "td", "figure", ".part"]
      .map((s) => document.querySelectorAll(s).length)"""
    seen = see("example")
    expected = seen.run(shape)
    seen = see("hostile")
    assert seen.run(shape) == expected
    all_tabs(seen)
    seen.run(OPEN_ALL)
    seen.run(f"() => {{ location.hash = '#op-{LOOKUP}'; }}")
    seen.until("document.querySelector('#drawer dl')")
    written = seen.run("() => document.body.innerText + document.title")
    assert not HIDDEN.search(written)
    assert "⟨U+202E⟩" in written
    attributes = seen.run(
        """() => [...document.querySelectorAll("*")].flatMap((e) => [...e.attributes])
        .filter((a) => /^on/.test(a.name) || (a.name === "style" && /url/.test(a.value))
          || (/href|src/.test(a.name) && !a.value.startsWith("#"))).map((a) => a.name + a.value)"""
    )
    assert attributes == []
    assert seen.run("() => window.hit") is None


@pytest.mark.slow
def test_hostile_names_do_not_widen_the_page(see: See) -> None:
    for width in (1280, 400):
        seen = see("hostile", width=width)
        all_tabs(seen)
        beyond = seen.run("() => document.documentElement.scrollWidth - innerWidth")
        assert beyond <= 0, width


def test_the_policy_lets_nothing_else_run_or_load(see: See) -> None:
    seen = see()
    policy = seen.run("() => document.querySelector('meta[http-equiv]').content")
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    blocked = seen.run(
        """async () => {
          const found = [];
          const note = (e) => found.push(e.effectiveDirective);
          document.addEventListener("securitypolicyviolation", note);
          const add = (tag, fields) =>
            document.body.append(Object.assign(document.createElement(tag), fields));
          add("script", { textContent: "window.hit = 1" });
          add("style", { textContent: "body { color: red }" });
          add("img", { src: "https://example.invalid/a.png" });
          add("div", { innerHTML: "<b onclick='window.hit = 1' style='color:red'>b</b>" });
          document.querySelector("b[onclick]").click();
          await fetch("https://example.invalid/").catch(() => {});
          await new Promise((done) => setTimeout(done, 100));
          return [found.sort(), window.hit ?? null];
        }"""
    )
    assert blocked[1] is None
    assert {
        "script-src-elem",
        "style-src-elem",
        "img-src",
        "script-src-attr",
        "connect-src",
    } <= set(blocked[0])
    seen.said.clear()  # what was refused
    seen.requests.clear()


def test_pages_are_the_same_bytes_each_time() -> None:
    assert render_page(example_page()) == render_page(example_page())
    page = render_page(hostile_page())
    assert page.count("</script>") == page.count("<script")
    page.encode("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [("example", 400, "dark"), ("example", 1280, "light"), ("hostile", 1280, "dark")],
)
def test_it_is_open_to_all(see: See, name: str, width: int, scheme: str) -> None:
    seen = see(name, width=width, color_scheme=scheme)
    seen.run(axe_core.AXE_SCRIPT)
    seen.run(OPEN_ALL)
    assert complaints(seen) == []
    for tab in TABS:
        seen.run(f"() => document.querySelector('#tab-{tab}').click()")
        seen.run(f"() => document.querySelector('#{tab} .scripted').scrollIntoView()")
        seen.until(f"!document.querySelector('#{tab} .scripted .needs-scripts')")
        assert complaints(seen, f"#{tab}") == [], tab


@pytest.mark.slow
def test_drawer_menu_and_help_are_open_to_all(see: See) -> None:
    seen = see(anchor=f"#op-{LOOKUP}")
    seen.until("document.querySelector('#drawer dl')")
    seen.run(axe_core.AXE_SCRIPT)
    assert complaints(seen, "#drawer") == []
    seen.press("Escape")
    seen.click("#menu-button")
    assert complaints(seen, "#menu") == []
    seen.press("Escape", "?")
    assert complaints(seen, "#keys") == []


def complaints(seen: Window, within: str = "html") -> list[str]:
    """Return what axe-core finds, a line for each place."""
    found = seen.run(AXE, [within, TAGS])
    return [
        f"{entry['id']}: {node['target']} {node['html'][:120]} {node['failureSummary'][:200]}"
        for entry in found["violations"]
        for node in entry["nodes"]
    ]

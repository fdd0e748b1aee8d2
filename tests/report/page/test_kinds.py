"""What every kind of page must be: short, small, two pages on paper, and open to all readers."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import traceanalyzer as ta
from tests.corpus import CORPUS, needs_corpus
from tests.page_kinds import KINDS
from tests.report.page.looking import Window
from tests.report.page.test_safety import OPEN_ALL, axe_core, complaints
from tests.samples import Case

See = Callable[..., Window]

SCREEN, MOST_SCREENS = 800, 8
MOST_BYTES = 2_000_000
PRINTED_PAGES = 2
SAMPLES = {"C": Case("keras_fit"), "D": Case("recommender")}
LARGEST = (
    "tfgpu-tfprofiler-multiworker",
    "tfcpu-win-ahettiarac",
    "tfgpu-fatma-cnn-sandor",
    "jax-rocm-attention",
)
CLOSE_CARDS = "() => document.querySelectorAll('details.card').forEach((d) => (d.open = false))"
HEIGHT = "() => document.documentElement.scrollHeight"
# Marks what can be operated, but for places that arrow keys lead to, and links that others repeat.
CONTROLS = """() => [...document.querySelectorAll(
    "a[href], button, summary, input, textarea, [tabindex='0']")]
  .filter((e) => e.checkVisibility({ visibilityProperty: true }) && e.tabIndex >= 0 && !e.disabled)
  .map((e, at) => { e.dataset.at = at; return e.outerHTML.slice(0, 120); })"""
FOCUSED = """() => (document.activeElement === document.body ? null
  : document.activeElement.dataset.at ?? "-")"""


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A page of each kind as a file, made when first asked for."""
    folder = tmp_path_factory.mktemp("kinds")

    def page(kind: str) -> Path:
        path = folder / kind / "report.html"
        if path.exists():
            return path
        path.parent.mkdir()
        if kind in SAMPLES:
            SAMPLES[kind].write(path.parent)
        else:
            diagnosis = ta.diagnose(ta.load(KINDS[kind](folder / kind / "logs")))
            ta.write_report(diagnosis, html=path)
        return path

    return page


every_kind = pytest.mark.parametrize(
    "kind", ["A", *(pytest.param(kind, marks=pytest.mark.slow) for kind in "BCDE")]
)


def settled(seen: Window) -> Window:
    """The window once what is in view is drawn."""
    seen.run("() => document.querySelector('.tabs')?.scrollIntoView()")
    seen.until("![...document.querySelectorAll('.needs-scripts')].some((e) => e.checkVisibility())")
    seen.run("() => scrollTo(0, 0)")
    return seen


@every_kind
def test_a_page_is_of_its_kind_small_and_short(
    see: See, pages: Callable[[str], Path], kind: str
) -> None:
    path = pages(kind)
    seen = settled(see(path))

    assert seen.run("() => document.body.className.split(' ')[0]") == f"kind-{kind}"
    assert path.stat().st_size < MOST_BYTES
    seen.run(CLOSE_CARDS)
    assert seen.run(HEIGHT) <= MOST_SCREENS * SCREEN


@pytest.mark.slow
@every_kind
def test_a_page_is_open_to_all(see: See, pages: Callable[[str], Path], kind: str) -> None:
    seen = settled(see(pages(kind)))
    seen.run(axe_core.AXE_SCRIPT)
    seen.run(OPEN_ALL)
    assert complaints(seen) == []


@pytest.mark.slow
@every_kind
def test_the_summary_on_paper_has_two_pages(
    see: See, pages: Callable[[str], Path], kind: str
) -> None:
    pdf = settled(see(pages(kind))).page.pdf(format="A4")
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) <= PRINTED_PAGES


@pytest.mark.slow
@every_kind
def test_keys_alone_reach_every_control(see: See, pages: Callable[[str], Path], kind: str) -> None:
    seen = settled(see(pages(kind)))
    seen.run(OPEN_ALL)
    controls = seen.run(CONTROLS)
    reached = set()
    for _ in range(len(controls) + 20):
        seen.press("Tab")
        at = seen.run(FOCUSED)
        if at is None and len(reached) > 1:
            break
        reached.add(at)
    missed = [html for at, html in enumerate(controls) if str(at) not in reached]
    assert missed == []


@needs_corpus
@pytest.mark.slow
@pytest.mark.parametrize("folder", LARGEST)
def test_pages_of_large_traces_are_small_and_short(see: See, folder: str, tmp_path: Path) -> None:
    if not (CORPUS / folder).is_dir():
        pytest.skip(f"{folder} is not in the corpus")
    path = tmp_path / "report.html"
    ta.write_report(ta.diagnose(ta.load(CORPUS / folder)), html=path)
    seen = settled(see(path))
    assert path.stat().st_size < MOST_BYTES
    seen.run(CLOSE_CARDS)
    assert seen.run(HEIGHT) <= MOST_SCREENS * SCREEN

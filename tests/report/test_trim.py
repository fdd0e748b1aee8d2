"""A page that is too large is cut, and says so."""

import msgspec
import pytest

from tests.report.reading import records
from tests.samples import sample
from traceanalyzer.model.blocks import Column, Note, Page, Section, Table, Tabs
from traceanalyzer.report import html
from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.html import smaller
from traceanalyzer.report.op_details import op_details
from traceanalyzer.report.page import explore
from traceanalyzer.report.page_facts import PageFacts


def page_of(*blocks: Table | Note) -> Page:
    section = Section(id="made", title="Made", blocks=blocks)
    return Page(
        kind="A", title="run", facts=(), links=(), happened=("h",), next=("n",), sections=(section,)
    )


@pytest.fixture(scope="module")
def real() -> Page:
    diagnosis = sample("keras_fit")
    section = explore(PageFacts(diagnosis=diagnosis), assemble(diagnosis))
    assert section is not None
    page = msgspec.structs.replace(page_of(), sections=(section,))
    return msgspec.structs.replace(page, details=op_details(PageFacts(diagnosis=diagnosis)))


def test_each_is_smaller_than_the_one_before_and_says_what_it_lacks(real: Page) -> None:
    pages = list(smaller(real))

    assert pages[0] is real
    sizes = [len(msgspec.json.encode(page)) for page in pages]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 10_000
    said = " ".join(pages[-1].left_out)
    for what in ("the timeline", "the table of all ops", "details of ops", "--json FILE"):
        assert what in said
    (tabs,) = pages[-1].sections[0].blocks
    assert isinstance(tabs, Tabs)
    (note, *_) = tabs.tabs[0].blocks
    assert isinstance(note, Note)
    assert "traceanalyzer tables PATH" in str(note.text)


def test_a_table_that_is_cut_keeps_its_total() -> None:
    rows = tuple((f"{k}",) for k in range(1_000))
    table = Table(columns=(Column(name="n", title="N"),), rows=rows, total_rows=1_000)

    _, cut, *_ = smaller(page_of(table, Note(text=("y" * 10**6,))))

    block, note = cut.sections[0].blocks
    assert len(msgspec.json.encode(note)) < 2_000
    assert isinstance(block, Table)
    assert (len(records(block)), block.total_rows) == (200, 1_000)
    assert "800 rows and entries" in cut.left_out


def test_a_page_in_html_keeps_to_its_size(monkeypatch: pytest.MonkeyPatch, real: Page) -> None:
    whole = html.render_page(real)
    least = len(html.render_page(page_of()).encode())
    monkeypatch.setattr(html, "LARGEST_BYTES", least + 20_000)

    found = html.render_page(real)

    assert len(found.encode()) <= least + 20_000 < len(whole.encode())
    assert "This page has no room for the timeline" in found

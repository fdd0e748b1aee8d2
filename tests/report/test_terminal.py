"""The page in the terminal."""

import io
from collections.abc import Callable
from functools import cache

import msgspec
import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.report.bad_input import HOSTILE
from tests.report.made_changes import change
from tests.samples import SAMPLES, sample
from traceanalyzer.changes import changes_of
from traceanalyzer.format import duration_text
from traceanalyzer.model import blocks as b
from traceanalyzer.report.page import page_of
from traceanalyzer.report.terminal import print_first_screen, print_page
from traceanalyzer.units import PS_PER_US


@cache
def page(name: str) -> b.Page:
    return page_of(sample(name), changes_of(sample(name)))


def printed(
    shown: b.Page,
    width: int = 80,
    show: Callable[[b.Page, Console], None] = print_page,
    **options: object,
) -> str:
    console = Console(file=io.StringIO(), width=width, **options)  # type: ignore[arg-type]
    show(shown, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().replace("\xa0", " ")


def saved() -> str:
    """What the first change of the recommender saves, as people read it."""
    of_python = "Write the Python function with TensorFlow ops"
    [shown] = [c for c in changes_of(sample("recommender")) if c.title == of_python]
    assert shown.saving.high_us is not None
    return duration_text(shown.saving.high_us * PS_PER_US)


def hostile() -> b.Page:
    """A page in which each text of a card, a change, and the answer is hostile."""
    text = (HOSTILE, b.Code(text=HOSTILE), b.Line(file=HOSTILE, line=1))
    blocks: tuple[b.Block, ...] = (
        b.Note(text=text),
        b.KeyValues(rows=((HOSTILE, text),)),
        b.Bullets(items=(text,)),
        b.Table(columns=(b.Column(name="a", title=HOSTILE),), rows=((HOSTILE,),), total_rows=1),
        b.Source(file=HOSTILE, first_line=1, lines=(HOSTILE,)),
        b.Diff(file=HOSTILE, line=1, old=(HOSTILE,), new=(f"```{HOSTILE}",)),
        b.DataPath(steps=(b.PathStep(label=HOSTILE, device="gpu", op_id="a"),)),
        b.StepBar(unit="us", bars=(b.Bar(label=HOSTILE, total=0, parts=()),)),
        b.Fold(summary=text, blocks=(b.Note(text=text),)),
        b.Changes(
            rows=(b.ChangeRow(to="a", title=text, detail=text, where=text, saves=text),),
        ),
    )
    card = b.Card(
        id="a", title=text, where=text, saves=text, certainty=None, facts=text, links=(),
        blocks=blocks,
    )  # fmt: skip
    return b.Page(
        kind="A",
        title=HOSTILE,
        facts=(HOSTILE,),
        links=(),
        happened=text,
        next=text,
        sections=(b.Section(id="changes", title=HOSTILE, blocks=(*blocks, card)),
                  b.Section(id="cards", title=HOSTILE, blocks=(*blocks, card))),
    )  # fmt: skip


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", SAMPLES)
def test_the_first_screen_fits_in_30_lines(name: str, width: int) -> None:
    assert printed(page(name), width, print_first_screen).count("\n") <= 30


def test_changes_that_do_not_fit_are_counted() -> None:
    found = sample("recommender")
    many = page_of(found, [change(found, id=f"c{k}", title=f"Change {k}") for k in range(40)])

    said = printed(many, 80, print_first_screen)
    assert said.count("\n") <= 30
    assert "Change 0" in said
    shown = sum(f"Change {k}\n" in said or f"Change {k} " in said for k in range(40))
    assert f"and {40 - shown} more: see the page" in said


@pytest.mark.parametrize("width", [20, 80])
@pytest.mark.parametrize("name", SAMPLES)
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    for line in printed(page(name), width).splitlines():
        assert cell_len(line) <= width


def test_a_narrow_terminal_shows_every_figure_whole() -> None:
    found = sample("recommender")
    said = printed(page_of(found, [change(found)]), 40, print_first_screen)
    assert "40.0 µs" in said


@pytest.mark.parametrize("width", [40, 160])
def test_hostile_names_are_inert(width: int) -> None:
    said = printed(hostile(), width)
    assert "[bold" in said.replace("\n", "")  # markup stays text
    assert not any(character in said for character in "\x00\x07\x1b\x9b\u2028\u202e\u200b\ud800")
    assert said.encode("utf-8")
    colours = printed(hostile(), width, force_terminal=True, color_system="truecolor")
    assert "\x1b[1m" in colours  # our own styles ...
    assert "\x1b[31mg" not in colours  # ... and none of a name's


def test_a_terminal_without_unicode() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", errors="strict")
    for name in SAMPLES:
        print_page(page(name), Console(file=stream, width=80))
    print_page(hostile(), Console(file=stream, width=80))
    stream.flush()
    assert saved().replace("µ", "u").encode() in raw.getvalue()


def test_a_picture_is_said_to_be_on_the_page() -> None:
    made = page_of(sample("recommender"))
    chart = b.Icicle(measures=(("Host time", "us"),), nodes=())
    section = b.Section(id="scopes", title="Scopes", blocks=(chart,))

    text = printed(msgspec.structs.replace(made, sections=(section,)))

    assert "see the page" in text[text.index("Scopes") :]

"""Name scopes as boxes: where each lies, what stands in it, and what is left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.examples import SCOPES_COLUMNS, gpu_run, hostile_run
from tests.report.markup import read
from traceanalyzer.model import Scopes, Table
from traceanalyzer.report.packed import unpack
from traceanalyzer.report.page import render_page
from traceanalyzer.report.page.icicle import BOXES, LEVELS, ROW_HEIGHT, icicle, scope_data


def scopes_of(*rows: tuple[object, ...], total: int | None = None) -> Scopes:
    table = Table(columns=SCOPES_COLUMNS, rows=rows, total_rows=total or len(rows))  # type: ignore[arg-type]
    return Scopes(nodes=table)


TREE = scopes_of(
    (None, "model", "scope", 20.0, 60.0, 9.0, 3),
    (0, "dense", "scope", 0.0, 60.0, 9.0, 2),
    (0, "lookup", "op", 20.0, 0.0, 0.0, 1),
    (None, "augment", "op", 20.0, 0.0, 0.0, 1),
)


def test_a_box_is_as_wide_as_its_time_and_lies_below_its_own_scope() -> None:
    picture = icicle(TREE)
    assert picture is not None
    assert [(box.node, box.x, box.width, box.y) for box in picture.boxes] == [
        (0, 0, 80, 0),
        (3, 80, 20, 0),
        (1, 0, 60, ROW_HEIGHT),
        (2, 60, 20, ROW_HEIGHT),
    ]
    assert picture.height == 2 * ROW_HEIGHT
    assert (picture.cpu_us, picture.device_us) == (40, 60)


def test_where_it_ran_is_told_by_more_than_colour() -> None:
    picture = icicle(TREE)
    assert picture is not None
    assert [box.side for box in picture.boxes] == ["mixed", "cpu", "device", "cpu"]
    assert picture.boxes[0].cpu_share == 0.25
    assert picture.boxes[0].title == (
        "model: 80.0 %, 20.0\xa0µs on the CPU, 60.0\xa0µs on devices, "
        "9.00\xa0µs to launch it, 3 ops"
    )
    assert picture.boxes[1].title == "augment: 20.0 %, 20.0\xa0µs on the CPU, 1 op"


def test_words_stand_where_they_have_room() -> None:
    rows = [(None, "a_name_of_some_length", "op", share, 0.0, 0.0, 1) for share in (70, 20, 8, 2)]
    picture = icicle(scopes_of(*rows))
    assert picture is not None
    words = [dict(box.words) for box in picture.boxes]
    assert words[0] == dict.fromkeys(("narrow", "wide", "widest"), "a_name_of_some_length")
    assert "narrow" not in words[1]
    assert words[1]["wide"] == "a_name…_length"
    assert words[2] == words[3] == {}


def test_small_boxes_and_deep_ones_are_left_out_and_counted() -> None:
    deep = [(None if k == 0 else k - 1, f"s{k}", "scope", 10.0, 0.0, 0.0, 1) for k in range(9)]
    picture = icicle(scopes_of(*deep, total=50))
    assert picture is not None
    assert len(picture.boxes) == LEVELS
    assert (picture.named, picture.scopes) == (LEVELS, 50)
    many = [(None, f"s{k}", "op", 10.0, 0.0, 0.0, 1) for k in range(450)]
    picture = icicle(scopes_of(*many))
    assert picture is not None
    assert len(picture.boxes) == BOXES
    narrow = [(None, f"s{k}", "op", 10.0, 0.0, 0.0, 1) for k in range(900)]
    picture = icicle(scopes_of(*narrow))
    assert picture is not None
    assert len(picture.boxes) == BOXES


def test_what_took_no_time_is_no_picture() -> None:
    assert icicle(None) is None
    assert icicle(scopes_of((None, "a", "op", 0.0, 0.0, 5.0, 1))) is None
    assert icicle(scopes_of()) is None


@pytest.mark.parametrize("parent", [7, 0, -3, 0.5, "x"])
def test_a_parent_that_is_none_breaks_nothing(parent: object) -> None:
    picture = icicle(
        scopes_of((parent, "a", "op", 1.0, 0.0, 0.0, 1), (None, "b", "op", 1.0, 0.0, 0.0, 1))
    )
    assert picture is not None
    assert any(box.title.startswith("b") for box in picture.boxes)


def test_the_table_has_scopes_with_their_paths() -> None:
    picture = icicle(TREE)
    assert picture is not None
    assert [(row.path, row.share) for row in picture.rows] == [("model", 0.8), ("model/dense", 0.6)]


def test_scripts_are_given_every_node() -> None:
    opened = unpack(scope_data(TREE))
    assert opened["parent"] == [None, 0, 0, None]
    assert opened["name"] == ["model", "dense", "lookup", "augment"]
    assert opened["device_us"] == [60, 60, 0, 0]


def test_the_page_shows_the_picture_and_its_text_form() -> None:
    section = read(render_page(gpu_run())).one("section", id="time")
    picture = section.one("svg", class_="icicle")
    boxes = list(picture.all("svg", class_="scope"))
    assert len(boxes) == 7
    assert boxes[0].one("title").text.startswith("model: 82.0 %, 30.0 ms on the CPU, 900 ms on")
    table = next(t for t in section.all("table") if t.one("caption").text == "Time by name scope")
    assert "model/backbone0 µs700 ms30.0 ms61.7 %20" in table.text
    assert "7 of 1,234 scopes and ops have a box" in section.text


def test_hostile_names_stay_text() -> None:
    section = read(render_page(hostile_run())).one("section", id="time")
    assert not list(section.all("img"))
    assert any("⟨U+202E⟩gnp.exe" in title.text for title in section.all("title"))


def test_a_run_of_many_devices_compares_them() -> None:
    run = gpu_run()
    assert run.timeline is not None
    device = run.timeline.devices[0]
    devices = tuple(replace(device, device=f"/device:GPU:{k}") for k in range(8))
    run = replace(run, timeline=replace(run.timeline, devices=devices))
    section = read(render_page(run)).one("section", id="time")
    table = next(t for t in section.all("table") if t.one("caption").text == "Devices side by side")
    assert len(list(table.one("tbody").all("tr"))) == 8
    assert "14.0 ms60.0 %5.0 %15.0 %10.0 %10.0 %" in table.text
    # Not eight tables one below the other: they are folded.
    folded = [t for d in section.all("details") for t in d.all("table")]
    assert len(list(section.all("table"))) - len(folded) == 1


def test_one_device_stands_by_itself() -> None:
    section = read(render_page(gpu_run())).one("section", id="time")
    assert "trainer-0 /device:GPU:0" in [h.text for h in section.all("h3")]
    assert "Devices side by side" not in section.text
    bar = next(iter(section.all("svg", class_="phases")))
    assert [r.attributes["width"] for r in bar.all("rect")] == [
        "60.0%",
        "5.0%",
        "15.0%",
        "10.0%",
        "10.0%",
    ]

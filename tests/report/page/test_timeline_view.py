"""The timeline: moved, searched, walked, and added up."""

from collections.abc import Callable

import pytest

from tests.report.page.looking import Window

See = Callable[..., Window]

ABOUT = ".tl-about"


def timeline(see: See, anchor: str = "#timeline", **options: object) -> Window:
    seen = see(anchor=anchor, **options)
    seen.until("document.querySelector('.tl-box canvas')?.height > 100")
    return seen


def drawn(seen: Window) -> str:
    seen.page.wait_for_timeout(60)
    return str(seen.run("() => document.querySelector('.tl-box canvas').toDataURL()"))


def test_keys_walk_events_zoom_and_move(see: See) -> None:
    seen = timeline(see)
    seen.run("() => document.querySelector('.tl-box canvas').focus()")
    first = drawn(seen)
    seen.press("ArrowRight")
    assert "step" in seen.text(ABOUT)
    seen.press("ArrowDown")
    assert "Stream 13" in seen.text(ABOUT)
    event = seen.text(ABOUT)
    seen.press("ArrowRight")
    assert seen.text(ABOUT) != event
    seen.press("w", "w", "d")
    assert drawn(seen) != first
    seen.until_address("time.view=")
    seen.press("0")
    assert drawn(seen) != first  # which shows a few steps
    seen.click("#timeline button:text('Steps')")
    seen.until("!location.hash.includes('time.view')")


@pytest.mark.slow
def test_raw_names_of_events_are_found(see: See) -> None:
    seen = timeline(see)
    box = seen.page.locator("#timeline input")
    box.fill("executorstate::process")
    seen.until("document.querySelector('#timeline [role=status]').textContent === '120 events'")
    box.press("Enter")
    assert "ExecutorState::Process" in seen.text(ABOUT)
    found = seen.text(ABOUT)
    box.press("Enter")
    assert seen.text(ABOUT) != found
    seen.until_address("time.find=executorstate::process")
    seen.page.reload()
    seen.until("document.querySelector('#timeline [role=status]')?.textContent === '120 events'")


@pytest.mark.slow
def test_a_link_to_a_time_shows_the_range_and_what_it_adds_up_to(see: See) -> None:
    seen = see()
    seen.click(".part.cpu_op")
    seen.until("document.querySelector('.tl-total table')")
    assert seen.text(".tl-total p").startswith("Range of 5.00\xa0ms from 16.8\xa0ms")
    kinds = seen.texts(".tl-total table:first-child td:first-child")
    assert {"kernel", "transfer", "CPU op", "your program"} >= {kind.strip() for kind in kinds}
    assert "time.range=16800.000-21800.000" in seen.hash
    seen.click(".tl-total button:text('Clear')")
    assert "time.range" not in seen.hash
    seen.go("#time-100.000-900.000")
    seen.until("document.querySelector('.tl-total table')")
    assert "Range of 800\xa0µs" in seen.text(".tl-total")


@pytest.mark.slow
def test_dragging_moves_and_with_shift_adds_up(see: See) -> None:
    seen = timeline(see)
    seen.run("() => document.querySelector('.tl-box').scrollIntoView({block: 'center'})")
    seen.click("#timeline button:text('+')")
    seen.until_address("time.view=")
    view = seen.hash
    place = seen.page.locator(".tl-box canvas").bounding_box()
    assert place
    x, y = place["x"] + 600, place["y"] + 60
    mouse = seen.page.mouse

    def drag(by: float) -> None:
        mouse.move(x, y)
        mouse.down()
        mouse.move(x + by, y, steps=4)
        mouse.up()

    drag(80)
    seen.until(f"decodeURIComponent(location.hash) !== {view!r}")
    seen.page.keyboard.down("Shift")
    drag(120)
    seen.page.keyboard.up("Shift")
    seen.until("document.querySelector('.tl-total table')")
    seen.click("#timeline [aria-label='Zoom in']")
    mouse.move(x, y)
    seen.page.keyboard.down("Control")
    mouse.wheel(0, -200)
    seen.page.keyboard.up("Control")
    seen.until_address("time.view=")


@pytest.mark.slow
def test_pointing_describes_and_an_op_leads_to_its_drawer(see: See) -> None:
    seen = timeline(see, anchor="#timeline&time.view=0.000-6000.000")
    seen.run("() => document.querySelector('.tl-box').scrollIntoView({block: 'center'})")
    place = seen.page.locator(".tl-box canvas").bounding_box()
    assert place
    seen.page.mouse.click(place["x"] + 230, place["y"] + 26 * 2 + 10)
    assert "kernel" in seen.text(ABOUT)
    seen.click(f"{ABOUT} a")
    seen.until("document.querySelector('#drawer h2')")


def test_arrows_join_a_producer_its_transfer_and_the_consumer(see: See) -> None:
    seen = timeline(see, anchor="#timeline&time.view=0.000-6000.000")
    seen.run("() => document.querySelector('.tl-box canvas').focus()")
    seen.press("ArrowRight", "ArrowDown", "ArrowDown")  # the first transfer
    coloured = """() => { const c = document.querySelector('.tl-box canvas');
      const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0;
      for (let i = 0; i < d.length; i += 4) n += d[i] < 40 && d[i + 2] > 150;
      return n; }"""
    seen.page.wait_for_timeout(60)
    with_arrows = seen.run(coloured)
    seen.press("ArrowRight")  # has no arrows
    seen.page.wait_for_timeout(60)
    assert with_arrows > seen.run(coloured) + 100


@pytest.mark.slow
def test_a_dark_page_draws_it_dark(see: See) -> None:
    seen = timeline(see, color_scheme="light")
    corner = """() => [...document.querySelector(".tl-box canvas").getContext("2d")
      .getImageData(3, 3, 1, 1).data]"""
    assert seen.run(corner)[:3] == [255, 255, 255]
    seen.press("t")
    seen.page.wait_for_timeout(60)
    assert seen.run(corner)[:3] == [20, 23, 28]

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.report.examples import empty_run, gpu_run
from traceanalyzer.model import CopyGraph, DeviceCopies, Report
from traceanalyzer.report.page.device_copies import DevicePicture, device_pictures

if TYPE_CHECKING:
    from traceanalyzer.model import Direction


def copies(source: str, target: str, size: int | None, way: Direction = "unknown") -> DeviceCopies:
    return DeviceCopies(
        source=source, target=target, direction=way, bytes=size, count=1, total_us=1.0
    )


def of(*devices: DeviceCopies) -> Report:
    return replace(gpu_run(), copy_graph=CopyGraph(nodes=(), edges=(), devices=devices))


def first(report: Report) -> DevicePicture:
    return device_pictures(report)[0]


def ends(picture: DevicePicture) -> list[tuple[str, str, bool]]:
    """From where to where the lanes go, and whether from left to right."""
    return [(x.copies.source, x.copies.target, x.x_to > x.x_from) for x in picture.lanes]


def test_there_and_back_lie_on_one_line() -> None:
    drawn = first(gpu_run())
    assert drawn.measure.id == "bytes"
    assert ends(drawn) == [
        ("host", "gpu:0", True),
        ("gpu:0", "host", True),
        ("host", "gpu:1", True),
        ("gpu:0", "gpu:1", True),
    ]
    there, back, *_ = drawn.lanes
    assert there.y == back.y
    assert back.x_from > there.x_to
    assert [lane.width for lane in drawn.lanes] == [14.0, 4.5, 2.0, 2.4]
    assert [lane.is_measured for lane in drawn.lanes] == [True, True, False, True]
    assert [lane.told.text for lane in drawn.lanes][:3] == [
        "3.04\N{NO-BREAK SPACE}GB",
        "629\N{NO-BREAK SPACE}MB",
        "size unknown",
    ]
    assert [lane.row for lane in drawn.lanes] == [0, 1, 2, 3]


def test_each_measure_that_is_known_has_a_picture() -> None:
    assert [p.measure.id for p in device_pictures(gpu_run())] == ["bytes", "time", "count"]
    unsized = replace(copies("host", "gpu:0", None), total_us=None, count=7)
    (drawn,) = device_pictures(of(unsized))
    assert drawn.measure.id == "count"
    assert drawn.lanes[0].told.text == "7 copies"
    assert drawn.lanes[0].detail.text == "size unknown"


def test_the_host_stands_on_the_side_that_has_copies() -> None:
    drawn = first(of(copies("host", "gpu:0", 5, "h2d")))
    assert [box.title for box in drawn.boxes] == ["host", "gpu:0"]
    drawn = first(of(copies("gpu:0", "host", 5, "d2h"), copies("gpu:0", "gpu:1", 5, "p2p")))
    assert [(box.title, box.x > 200) for box in drawn.boxes] == [
        ("gpu:0", False),
        ("host", True),
        ("gpu:0", False),
        ("gpu:1", True),
    ]


def test_eight_devices_in_the_order_of_their_numbers() -> None:
    every = [copies(f"gpu:{k}", "host", k, "d2h") for k in range(11)]
    every += [copies("host", f"gpu:{k}", k, "h2d") for k in range(11)]
    drawn = first(of(*every))
    devices = [box for box in drawn.boxes if box.title.startswith("gpu")]
    assert [box.title for box in sorted(devices, key=lambda b: b.y)] == [
        f"gpu:{k}" for k in range(11)
    ]
    hosts = [box for box in drawn.boxes if box.title == "host"]
    assert len(hosts) == 2
    assert {(box.y, box.y + box.height) for box in hosts} == {
        (devices[0].y, devices[-1].y + devices[-1].height)
    }


def test_nothing_in_the_picture_overlaps_or_leaves_it() -> None:
    pairs = [copies("host", f"gpu:{i}", i * 10**6) for i in range(4)]
    pairs += [copies(f"gpu:{i}", "host", None) for i in range(4)]
    pairs += [copies("host", "gpu:2", 3, "h2d"), copies("host", "host", 8, "h2h")]
    pairs += [copies("gpu:0", "gpu:0", 5), copies("gpu:1", "gpu:2", 7), copies("gpu:2", "gpu:1", 7)]
    drawn = first(of(*pairs))
    assert sorted(lane.row for lane in drawn.lanes) == list(range(len(pairs)))
    for box in drawn.boxes:
        assert box.x >= 0
        assert box.x + box.width <= drawn.width
        assert box.y + box.height <= drawn.height
    for one, other in itertools.combinations(drawn.boxes, 2):
        beside = one.x + one.width < other.x or other.x + other.width < one.x
        below = one.y + one.height < other.y or other.y + other.height < one.y
        assert beside or below
    for lane in drawn.lanes:
        for box in drawn.boxes:
            crosses = box.x < lane.x_to and box.x + box.width > lane.x_from
            assert not (crosses and box.y < lane.y < box.y + box.height)


def test_a_big_machine_is_cut_to_what_can_be_read() -> None:
    drawn = first(of(*(copies(f"gpu:{i}", "host", 1, "d2h") for i in range(40))))
    assert (drawn.rows, drawn.rows_shown, len(drawn.lanes)) == (40, 24, 24)


def test_no_copies_no_picture() -> None:
    assert device_pictures(empty_run()) == ()
    assert device_pictures(of()) == ()


def test_all_sizes_unknown_or_zero() -> None:
    drawn = first(of(copies("host", "gpu:0", None), copies("gpu:0", "host", 0)))
    assert {lane.width for lane in drawn.lanes} == {2.0}


def test_times_of_broken_traces() -> None:
    nan = replace(copies("host", "gpu:0", None), total_us=float("nan"))
    negative = replace(copies("gpu:0", "host", None), total_us=-5.0)
    pictures = device_pictures(of(nan, negative))
    assert [p.measure.id for p in pictures] == ["time", "count"]
    assert {lane.width for lane in pictures[0].lanes} == {2.0}
    assert [lane.is_measured for lane in pictures[0].lanes] == [False, True]

"""What the report says of copies: how fast, what is read back, storms, and round trips."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import traceanalyzer as ta
from tests.report.examples import MATMUL, PY_FUNC, empty_run, gpu_run
from tests.report.markup import read
from tests.report.test_summary import printed
from tests.traces import (
    call,
    copy,
    executor,
    gpu,
    host,
    kernel,
    old_copy,
    op,
    step,
    stream,
    thread,
    us,
    write,
    xspace,
)
from traceanalyzer.model import Island, MovedOp
from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.page import render_page

if TYPE_CHECKING:
    from pathlib import Path

    from tests.report.markup import Element
    from tests.traces import Event
    from traceanalyzer.model import Report


def made(folder: Path, ops: list[Event], on_gpu: list[Event]) -> Report:
    """Of two steps; the ops are of one call of `f`."""
    space = xspace(
        host(
            thread("python", 1)(
                step(0, us(0, 1000))(call("__inference_f_1", us(1, 900), step=5)),
                step(1, us(1000, 1000)),
            ),
            thread("tf_Compute", 2)(executor(us(2, 998), step=5)(*ops)),
        ),
        gpu(0, memory_bandwidth=4 * 10**11)(stream(9)(*on_gpu)),
    )
    return assemble(ta.diagnose(ta.load(write(folder, space))))


class TestReport:
    def test_edges_tell_rates_and_what_compute_hid(self, tmp_path: Path) -> None:
        report = made(
            tmp_path,
            [],
            [
                kernel("k", us(10, 50), "a:Neg"),
                copy("H2D", 1_000_000, us(20, 100), source="pageable", asynchronous=False),
            ],
        )

        assert report.copy_graph is not None
        (devices,) = report.copy_graph.devices
        (edge,) = report.copy_graph.edges
        for told in (devices, edge):
            assert (told.hidden_us, told.total_us) == (40.0, 100.0)
            assert (told.bytes_per_s, told.link_bytes_per_s, told.link_source) == (
                1e10,
                1e10,
                "seen",
            )
            assert (told.pageable_count, told.pageable_bytes, told.pinned_count) == (
                1,
                1_000_000,
                0,
            )
            assert (told.async_count, told.sync_count) == (0, 1)

    def test_a_predicate_read_back_and_a_storm(self, tmp_path: Path) -> None:
        back = [
            old_copy("D2H", 1, us(t, 2), "p/_1:_HostRecv", producer="p", consumer="cond/x/_6")
            for t in (300, 1300)
        ]
        storm = [copy("D2D", 1, us(t + 5 * k, 1)) for t in (400, 1400) for k in range(12)]
        report = made(tmp_path, [], [*back, *storm])

        graph = report.copy_graph
        assert graph is not None
        (told,) = graph.read_backs
        assert (told.reader, told.source, told.source_name) == ("predicate", "name:p", "p")
        assert (told.count_per_step, told.bytes_each, told.total_us) == (1, 1, 4.0)
        assert graph.read_backs_total == 1
        (small,) = graph.storms
        assert (small.count, small.count_per_step, small.each_us) == (24, 12, 1.0)
        assert (small.source, small.target, small.direction) == ("gpu:0", "gpu:0", "d2d")
        nodes = {node.op_id for node in graph.nodes}
        assert nodes >= {"name:p", *(end for e in small.edges for end in (e.source, e.target))}

    def test_an_island_and_what_to_move(self, tmp_path: Path) -> None:
        """`Unique` has a GPU kernel; `AsString` has none and stays."""
        copies = [
            old_copy("D2H", 64, us(100, 2), "x/_1:_Send", producer="x", consumer="u"),
            old_copy("H2D", 32, us(120, 2), "u/_2:_Send", producer="u", consumer="y"),
            old_copy("D2H", 640, us(200, 2), "x/_3:_Send", producer="x", consumer="s"),
            old_copy("H2D", 320, us(220, 2), "s/_4:_Send", producer="s", consumer="y"),
        ]
        ops = [op("u", "Unique", us(105, 9)), op("s", "AsString", us(205, 9))]
        report = made(tmp_path, ops, copies)

        text, numbers = report.islands
        assert [o.name for o in text.ops] == ["s"]
        assert text.move is None
        assert [o.name for o in numbers.ops] == ["u"]
        assert numbers.function == "f"
        assert (numbers.arriving.count, numbers.arriving.bytes) == (1, 64)
        assert numbers.arriving.total_us == 2.0

        assert report.copy_graph is not None
        groups = report.copy_graph.groups
        assert groups is not None
        # What comes to an island is copied from the device: its ops take it, and give it back.
        for side in (groups.sources, groups.targets):
            told = {group.label: group.islands for group in side if group.islands}
            assert told == {"s": (1,), "u": (2,)}
        assert numbers.leaving.bytes == 32
        assert numbers.move is not None
        assert numbers.move.to_gpu == (
            MovedOp(op_id=numbers.ops[0].op_id, name="u", type="Unique"),
        )
        assert numbers.move.to_cpu == ()
        assert (numbers.move.saved_bytes, numbers.move.stays_bytes) == (96, 0)
        assert (numbers.move.saved_us, numbers.move.stays_us) == (None, None)

    def test_without_copies_there_is_nothing(self, tmp_path: Path) -> None:
        report = made(tmp_path, [op("u", "Unique", us(105, 9))], [])

        assert report.copy_graph is None
        assert report.islands == ()


def section(report: Report, name: str) -> Element:
    (found,) = (
        s for s in read(render_page(report)).all("section") if s.attributes.get("id") == name
    )
    return found


def table(part: Element, caption: str) -> list[list[str]]:
    (found,) = (t for t in part.all("table") if t.one("caption").text == caption)
    return [
        [" ".join(c.text.split()) for c in row.children if not isinstance(c, str)]
        for row in found.one("tbody").all("tr")
    ]


class TestPage:
    def test_says_how_fast_copies_went(self) -> None:
        shown = table(section(gpu_run(), "copies"), "How fast copies went")

        assert shown[0] == [
            "host",
            "gpu:0",
            "11.9 GB/s",
            "31.5 GB/s",
            "PCI Express, as the driver states it",
            "78.5 %",
            "120",
            "360",
            "360",
        ]
        assert shown[1][3:] == [
            "12.4 GB/s",
            "the fastest large copy of that direction in this trace; the link may do more",
            *["unknown"] * 4,
        ]

    def test_says_who_reads_back_what(self) -> None:
        shown = table(section(gpu_run(), "copies"), "Scalars read back each step")

        assert [row[0].split("/device")[0] for row in shown] == [
            "not named",
            gpu_run().copy_graph.read_backs[1].source_name,  # type: ignore[union-attr]
            gpu_run().copy_graph.read_backs[2].source_name,  # type: ignore[union-attr]
        ]
        assert shown[0][1] == "for the program itself: print, float() or .numpy() certain"
        assert shown[0][2:] == ["2", "240", "4 B", "2.82 µs", "800 µs", "668 µs"]
        assert shown[1][1].startswith(
            "for control flow: the condition of a tf.cond or a loop likely"
        )
        assert shown[1][6:] == ["unknown", "unknown"]
        assert shown[2][1].startswith("unknown")
        assert "Showing 3 of 180 values" in section(gpu_run(), "copies").text

    def test_without_steps_times_are_those_of_the_run(self) -> None:
        graph = gpu_run().copy_graph
        assert graph is not None
        backs = tuple(replace(b, count_per_step=None) for b in graph.read_backs)
        report = replace(gpu_run(), copy_graph=replace(graph, read_backs=backs))

        part = section(report, "copies")
        assert table(part, "Scalars read back each step")[0][5:] == ["338 µs", "96.0 ms", "80.1 ms"]
        assert "Waited in all" in part.text
        assert "waits 96.0 ms in all" in " ".join(printed(report).split())

    def test_says_where_many_copies_are_small(self) -> None:
        (row,) = table(section(gpu_run(), "copies"), "Many small copies")

        assert row[:5] == ["host", "gpu:0", "31", "3,720", "4 B"]
        assert row[-1].startswith("host to gpu:0 (3,600), ")

    def test_says_what_goes_round_and_what_to_move(self) -> None:
        part = section(gpu_run(), "islands")
        text = " ".join(part.text.split())

        assert len(list(part.all("h3"))) == 4
        assert f"{PY_FUNC.name}:{PY_FUNC.type}" in text
        assert "and 3 more" in text
        assert "629 MB in 120 copies, 52.4 ms" in text
        assert f"Move to the GPU: {MATMUL.name}." in text
        assert "Move to the CPU: model/head/Max." in text
        assert "That saves 629 MB; 629 MB would still be copied." in text
        assert "Of 1 value of unknown size that is copied now, 0 still would be." in text
        assert "That saves 12.5 µs of copying; 0 µs would stay." in text
        assert "That saves copies whose size is not known." in text
        assert "1 other op on the CPU of this function may be on the way." in text
        assert "No op that could move would make it less." in text
        assert "Showing 4 of 61 round trips" in text

    def test_does_not_say_that_nothing_helps_where_nothing_was_tried(self) -> None:
        (first, *_) = gpu_run().islands
        large = replace(first, move=None, is_weighed=False)
        part = section(replace(gpu_run(), islands=(large,)), "islands")

        assert "Too many ops lie about it" in part.text
        assert "would make it less" not in part.text

    def test_is_silent_where_there_is_nothing_to_say(self) -> None:
        page = render_page(empty_run())
        assert 'id="islands"' not in page
        for words in ("How fast", "Read back each step", "Many small copies", "Round trips"):
            assert words not in page

    def test_names_whose_figure_a_link_is(self) -> None:
        graph = gpu_run().copy_graph
        assert graph is not None
        edge = replace(graph.devices[0], link_source="memory", sync_count=0, async_count=0)
        report = replace(gpu_run(), copy_graph=replace(graph, devices=(edge,)))

        (row,) = table(section(report, "copies"), "How fast copies went")
        assert row[4] == "half of what the device's memory does: a copy reads and writes"
        assert row[8] == "unknown"


def test_an_island_is_a_record_like_any_other() -> None:
    plain = gpu_run().as_json()["islands"][0]
    assert list(plain) == [
        "host",
        "function",
        "certainty",
        "ops",
        "ops_total",
        "unseen",
        "between",
        "arriving",
        "leaving",
        "move",
        "is_weighed",
    ]
    assert isinstance(gpu_run().islands[0], Island)


class TestTerminal:
    def test_names_what_is_waited_for_and_the_largest_round_trip(self) -> None:
        text = " ".join(printed(gpu_run()).split())

        assert (
            "Read back each step: a value, for the program itself: print, float() or .numpy();"
            " the host waits 800 µs per step, then the GPU is idle for 668 µs"
        ) in text
        assert text.count("Read back each step") == 1  # for the others nothing tells
        assert (
            f"Round trips through the CPU: 61; the largest for {PY_FUNC.name}, 629 MB from a GPU"
            " and 629 MB back"
        ) in text

    def test_is_silent_on_what_hardly_matters(self) -> None:
        graph = gpu_run().copy_graph
        assert graph is not None
        least = (gpu_run().run.duration_us or 0) / 100
        backs = tuple(replace(b, wait_us=least - 1, idle_us=0.0) for b in graph.read_backs)
        report = replace(gpu_run(), copy_graph=replace(graph, read_backs=backs), islands=())

        assert "Read back" not in printed(report)
        assert "Round trips" not in printed(report)

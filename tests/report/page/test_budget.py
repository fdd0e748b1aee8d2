"""A page has at most five megabytes, whatever the document holds, and tells what it left out."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

from tests.report.examples import gpu_run
from tests.report.made_timeline import Made, MadeLane, made_timeline
from tests.report.markup import Element, read
from tests.report.page.made_ops import made_rows
from traceanalyzer.model import (
    Blocker,
    Evidence,
    Finding,
    Fix,
    OpRef,
    Report,
    RuledOut,
    TraceWhere,
)
from traceanalyzer.report import document
from traceanalyzer.report.ops import pack_ops
from traceanalyzer.report.packed import Numbers, pack
from traceanalyzer.report.page import fitting
from traceanalyzer.report.page.render import render_page

_CHANCE = random.Random(11)  # noqa: S311 - made the same each time
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"


def _name(length: int = 300) -> str:
    """A name that no other is like, and that packs badly."""
    return "/".join("".join(_CHANCE.choices(_LETTERS, k=24)) for _ in range(length // 25))


_PROSE = " ".join(f"word{k}" for k in range(400))


@cache
def _ops() -> tuple[OpRef, ...]:
    base = gpu_run().findings[0].ops[0]
    return tuple(
        replace(base, op_id=str(k), name=_name(), type=_name(), file="x.py", line=k)
        for k in range(60)
    )


@cache
def _evidence() -> tuple[Evidence, ...]:
    where = TraceWhere(host=None, plane="/host:CPU", line="python", offset_ps=1, duration_ps=2)
    return tuple(Evidence(kind="trace", text=_name(800), where=where) for _ in range(30))


def _heavy(number: int) -> Finding:
    """A finding with long lists of long texts."""
    base = gpu_run().findings[0]
    ops = tuple(replace(op, op_id=f"{number}-{op.op_id}") for op in _ops())
    evidence = _evidence()
    blocker = Blocker(cause="a_cause", certainty="certain", sufficient=False, evidence=evidence)
    return replace(
        base,
        dragged_along=(),
        id=f"id{number:04}",
        title=f"Title {number}",
        why=_PROSE,
        ops=ops,
        ops_total=500,
        evidence=evidence,
        blockers=(blocker,) * 20,
        ruled_out=(RuledOut(cause="another", because=_PROSE),) * 60,
        fixes=(Fix(text=_PROSE, code="\n".join(f"line_{k} = 1" for k in range(300))),) * 20,
    )


def _with_findings(count: int) -> Report:
    return replace(gpu_run(), findings=tuple(_heavy(k) for k in range(count)))


def _left_out(page: Element) -> str:
    return next((p.text for p in page.all("p") if p.attributes.get("id") == "left-out"), "")


def _led_astray(page: Element) -> set[str]:
    ids = {e.attributes["id"] for e in page.all() if "id" in e.attributes}
    led_to = {(a.attributes["href"] or "").partition("&")[0] for a in page.all("a")}
    return led_to - {f"#{name}" for name in ids}


def test_a_page_that_fits_leaves_nothing_out() -> None:
    assert _left_out(read(render_page(gpu_run()))) == ""


@pytest.mark.parametrize("is_read", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_heavy_findings_fit(is_read: bool) -> None:  # noqa: FBT001 - a parameter
    report = _with_findings(40)
    if is_read:  # of a document that another tool wrote
        report = document.loads(document.dumps(report))
    text = render_page(report)
    assert len(text.encode()) <= fitting.LARGEST
    page = read(text)
    assert "pieces of evidence" in _left_out(page)
    assert "report PATH --json FILE" in _left_out(page)
    assert _led_astray(page) == set()
    assert page.one("article", id="finding-id0000").one("h3").text == "1. Title 0"
    # What scripts read is still there.
    assert 'id="data-ops"' in text
    assert 'id="data-trace"' in text


def test_bulk_that_another_tool_packed_gives_way_first() -> None:
    report = gpu_run()
    noise = np.random.default_rng(5).integers(0, 2**24, 800_000)
    nothing = Numbers(np.zeros(len(noise)))
    bulk = pack(
        {"gap": Numbers(noise), "duration": nothing, "what": nothing, "count": nothing},
        len(noise),
        level=1,
    )
    made = made_timeline((MadeLane("h", "python", "thread", (Made(0, 1, "a", "program"),)),))
    (lane,) = made.lanes
    trace = replace(made, events=bulk, lanes=(replace(lane, rows=len(noise)),))
    ops = replace(pack_ops(pd.DataFrame(made_rows(4), dtype=object), 4), data=bulk.data)
    both = replace(report, trace=trace, tables=replace(report.tables, all_ops=ops))
    assert len(bulk.data) > 3_000_000
    text = render_page(both)
    assert len(text.encode()) <= fitting.LARGEST
    told = _left_out(read(text))
    assert "the events of the timeline" in told
    assert "the table of all ops" in told
    assert "evidence" not in told  # there was no need to
    assert 'id="timeline-picture"' in text
    assert 'id="data-trace"' not in text
    assert 'id="data-ops"' not in text

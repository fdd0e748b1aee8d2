"""How lines, libraries and devices stand in findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.emulator.oracle import the_oracle
from traceanalyzer.evidence.cases import Case
from traceanalyzer.evidence.examples import held, line, subject
from traceanalyzer.evidence.places import (
    asks_for_cpu,
    borne_out,
    hold_text,
)
from traceanalyzer.model import Fix
from traceanalyzer.placement.blockers import Hold

if TYPE_CHECKING:
    from traceanalyzer.evidence.held import Held

SPELLINGS = [
    "CPU", "cpu:0", "CPU:0", "/CPU", "/cpu:0", "/device:CPU:0", "/device:CPU:*", "device:cpu:0",
    "/job:localhost/replica:0/task:0/device:CPU:0", "/job:ps/task:1", "GPU:0", "/gpu:1",
    "/device:GPU:0", "/job:worker/task:0/device:GPU:1", "", "/job:cpu/task:0",
]  # fmt: skip


def test_a_request_is_read_as_tensorflow_reads_it() -> None:
    outcome = the_oracle().run("tests.placement.lookups:device_types", SPELLINGS, gpus=0)

    assert [kind == "CPU" for kind in outcome.value] == [asks_for_cpu(d) for d in SPELLINGS]


@pytest.mark.parametrize("hold", list(Hold), ids=lambda hold: hold.value)
def test_everything_that_can_hold_an_op_has_words(hold: Hold) -> None:
    text = hold_text(held(hold.value, "Add", asked="/device:CPU:0", frame=line(5)))

    assert text.endswith("(train.py:5)")
    assert "job:" not in text


@pytest.mark.parametrize(("others", "checked"), [((), True), ((held("request", "MatMul"),), False)])
def test_a_fix_is_checked_only_where_nothing_else_holds_the_op(
    others: tuple[Held, ...], *, checked: bool
) -> None:
    first = held("attributes", "MatMul", attributes={"T": "int32"})
    case = Case(type="MatMul", held=(first, *others))
    (fix,) = borne_out([Fix(text="cast", checked=True)], [(subject("MatMul", case=case), first)])
    assert fix.checked is checked

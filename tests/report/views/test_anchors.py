from __future__ import annotations

import pytest

from tests.report.examples import CONV, EXAMPLES, GATHER, PY_FUNC, gpu_run
from traceanalyzer.report.views.anchors import Home, fragment, homes
from traceanalyzer.report.views.grids import ROWS_SHOWN


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_every_op_has_one_home(name: str) -> None:
    report = EXAMPLES[name]()
    found = homes(report)
    assert len({(home.place, home.row) for home in found.values()}) == len(found)
    for finding in report.findings:
        assert all(op.op_id in found for op in finding.ops[:ROWS_SHOWN])


def test_homes_prefer_the_tables() -> None:
    found = homes(gpu_run())
    assert found[PY_FUNC.op_id] == Home("ops", 0)
    assert found[GATHER.op_id].place == "ops"
    assert found[CONV.op_id] == Home("ops", 5)
    assert found["d0000000"].place == "finding-4"


def test_fragments_hold_no_space_and_stay_apart() -> None:
    assert fragment("op", "a b") == "op-a%20b"
    assert fragment("op", "a%20b") != fragment("op", "a b")
    assert fragment("op", "\ud800").isascii()

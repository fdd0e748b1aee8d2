from __future__ import annotations

from tests.report.examples import CONV, MATMUL, PY_FUNC, gpu_run
from traceanalyzer.report.views.copies import copy_edges


def test_edges_begin_with_those_the_gpu_waits_for() -> None:
    edges = copy_edges(gpu_run())
    assert [edge.source for edge in edges[:2]] == [PY_FUNC.op_id, CONV.op_id]
    assert edges[-1].source == MATMUL.op_id

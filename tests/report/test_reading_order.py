"""What costs most is read first in the data."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import traceanalyzer as ta
from tests.traces import gpu, host, iterator, kernel, line, op, stream, thread, us, write, xspace
from traceanalyzer.model import FindingRecord
from traceanalyzer.report.assemble import assemble

#: Microseconds by type, in the order of neither names nor causes. The last is an input pipeline.
COSTS: Final = {
    "OfALibraryA": 40, "OfALibraryB": 10, "PyFunc": 70, "StringJoin": 30, "BatchMatrixInverse": 20,
    "OfALibraryC": 90, "MatrixExponential": 50, "FractionalAvgPool": 60, "ShuffleDataset": 80,
}  # fmt: skip
EQUAL: Final = dict.fromkeys(COSTS, 50)


def findings(folder: Path, costs: Mapping[str, int]) -> tuple[FindingRecord, ...]:
    """Those of a trace of level 2 in which each type ran once on the CPU beside a busy GPU."""
    *names, dataset = sorted(costs, key="ShuffleDataset".__eq__)
    ops = [op(f"model/{name}_1", name, us(100 * k, costs[name])) for k, name in enumerate(names)]
    pipeline = thread("tf_data_iterator", 3)(iterator("Root::Shuffle", us(0, costs[dataset])))
    busy = gpu(0)(stream(13, "Compute")(kernel("gemm", us(0, 3), op="dense/Mul:Mul")))
    path = write(folder, xspace(host(line("python")(*ops), pipeline), busy))
    return assemble(ta.diagnose(ta.load(path))).findings


def test_the_data_begin_with_what_costs_most(tmp_path: Path) -> None:
    """What does harm first, what is by design last; within each, what costs most."""
    found = findings(tmp_path, COSTS)
    rank = {"harmful": 0, "harmless": 1, "by_design": 2}
    order = [(rank[f.harm], -(f.cost.host_us or 0)) for f in found]

    assert order == sorted(order)
    assert sorted(-cost for _, cost in order) == sorted(COSTS.values())
    assert [o.type for o in found[0].ops] == ["OfALibraryC"]


def test_what_costs_the_same_is_always_in_the_same_order(tmp_path: Path) -> None:
    """Whatever the order in which the ops ran."""
    one = findings(tmp_path / "one", EQUAL)
    turned = findings(tmp_path / "two", dict(reversed(EQUAL.items())))

    assert [f.id for f in one] == [f.id for f in turned]

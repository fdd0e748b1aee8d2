"""How far placements agree with TensorFlow's own, workload by workload, and the table of that."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import pytest

from tests.emulator.oracle import the_oracle
from tests.workloads import WORKLOADS
from traceanalyzer.placement.nodes import ARGUMENTS, RESULTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.emulator.oracle import Outcome, PlacerRun
    from tests.workloads import Workload

__all__ = [
    "BOUND",
    "Miss",
    "Score",
    "asked_for",
    "emulated",
    "functions_of",
    "on_host",
    "short",
    "skip_without_half_precision",
    "table",
    "totals",
]

BOUND: Final = ARGUMENTS | RESULTS
"""Ops that have a device before the placer runs: they are not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """A node that is not where TensorFlow puts it.

    Attributes:
        workload: Name of the program.
        function: The function, "" for the graph of a session.
        node: The node's name.
        op: Its type.
        ours: Where we put it.
        theirs: Where TensorFlow puts it.
    """

    workload: str
    function: str
    node: str
    op: str
    ours: str
    theirs: str

    def __str__(self) -> str:
        """Return it in a line."""
        where = f"{self.workload}: {self.function or 'session'}/{self.node} ({self.op})"
        return f"{where}: {short(self.ours) or 'nowhere'}, TensorFlow {short(self.theirs)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How many nodes are where TensorFlow puts them.

    Attributes:
        workload: Name of the program.
        runs: Runs of the placer, but for those of single eager ops.
        eager_ops: Those.
        refused: Of both, those that the placer refused.
        nodes: Nodes of those that it did not refuse.
        on_cpu: Of these, where TensorFlow puts them on the CPU.
        equal: Of `nodes`, those that are where TensorFlow puts them.
    """

    workload: str
    runs: int = 0
    eager_ops: int = 0
    refused: int = 0
    nodes: int = 0
    on_cpu: int = 0
    equal: int = 0


def on_host(device: str) -> bool:
    """Return whether a device is a CPU."""
    return "/device:CPU:" in device


def short(device: str) -> str:
    """Return the end of a device's name, `GPU:0`."""
    return device.rpartition("/device:")[2]


@lru_cache
def emulated(workload: Workload) -> Outcome:
    """Run a workload on emulated GPUs, once for all that look at it."""
    return the_oracle().run(workload.path, gpus=workload.gpus)


def skip_without_half_precision(workload: Workload) -> None:
    """Skip a test of a program that this machine's CPU cannot run to its end under the emulator."""
    if "Op does not support N5Eigen4halfE inputs" in emulated(workload).error:
        pytest.skip("without AVX-512, the CPU under the emulated GPU cannot convolve halves")


def functions_of(runs: Iterable[PlacerRun]) -> frozenset[str]:
    """Return the names of all functions that placer runs tell of."""
    runs = tuple(runs)
    named = {run.function for run in runs}
    for pool in {id(run.attributes): run.attributes for run in runs}.values():
        for attributes in pool:
            named.update(_named_in(list(attributes.values())))
    return frozenset(named)


def _named_in(value: object) -> Iterator[str]:
    if isinstance(value, list):
        for each in value:
            yield from _named_in(each)
    elif isinstance(value, dict) and isinstance(name := value.get("func"), str):
        yield name


def table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Lay out a table: the first column is text, the others are numbers."""
    cells = [[str(cell) for cell in row] for row in (titles, *rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(titles))]
    lines = [
        "  ".join(
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    return "\n".join(lines)


def totals(rows: Sequence[tuple[object, ...]]) -> tuple[object, ...]:
    """Return the last row of a table: the sums of its columns, but for the first."""
    columns = list(zip(*rows, strict=True))[1:]
    return ("total", *(sum(n for n in column if isinstance(n, int)) for column in columns))


def asked_for(request: pytest.FixtureRequest) -> list[Workload]:
    """Return the workloads that the test run asks for, of the tests in the same file."""
    names = {
        item.callspec.params["workload"].name
        for item in request.session.items
        if item.path == request.path and hasattr(item, "callspec")
    }
    return [workload for workload in WORKLOADS if workload.name in names]

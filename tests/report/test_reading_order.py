"""What costs most is read first in the data."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pytest

import traceanalyzer as ta
from tests.traces import Event, gpu, host, iterator, kernel, line, op, stream, thread, us, write
from tests.traces import xspace as space_of
from traceanalyzer.cli import main
from traceanalyzer.diagnosis import diagnose
from traceanalyzer.placement.kernel_types import support_of
from traceanalyzer.placement.registry import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from traceanalyzer.causes import Cause
    from traceanalyzer.run import Run

CALLBACK: Final = "PyFunc"
DATASET: Final = "ShuffleDataset"
STRINGS: Final = "StringJoin"
FOREIGN: Final = tuple(f"OfALibrary{letter}" for letter in "ABCDEFGHIJ")
DEAREST: Final = FOREIGN[6]  # in the middle of all that is alphabetical
FINDINGS: Final = 40
SLACK_US: Final = 5.0


@cache
def without_gpu_kernel() -> tuple[str, ...]:
    """Op types that have no GPU kernel, and whose work is not the host's."""
    registry = nearest(None).registry
    found = [
        name
        for name in registry.ops
        if (support := support_of(registry, name)) is not None
        and support.overall.gpu == "none"
        and (definition := registry.definition(name)) is not None
        and definition.inputs
        and all(a.type not in {"string", "resource", "variant"} for a in definition.outputs)
        and re.fullmatch(r"(Fractional|Batch|Matrix|Random|Ragged|Quantized)\w+", name)
    ]
    return tuple(found[: FINDINGS - len(FOREIGN) - 3])


def types() -> tuple[str, ...]:
    return (*without_gpu_kernel(), *FOREIGN, CALLBACK, STRINGS, DATASET)


def different_costs() -> dict[str, int]:
    """Microseconds by type: whoever sorts by name, by cause or by place gets another order."""
    costs = [10 + 7 * (k * 11 % FINDINGS) for k in range(FINDINGS)]
    told = dict(zip(types(), costs, strict=True))
    highest = max(told, key=lambda name: told[name])
    told[highest], told[DEAREST] = told[DEAREST], told[highest]
    return told


@dataclass(frozen=True)
class Made:
    """A log directory, and what each op type in it costs."""

    logs: Path
    costs: Mapping[str, int]

    @property
    def run(self) -> Run:
        return ta.load(self.logs)


def made(folder: Path, costs: Mapping[str, int]) -> Made:
    """A trace of level 2 in which each op type ran once on the CPU beside a busy GPU."""
    start, events = 0.0, list[Event]()
    for name, cost in costs.items():
        if name != DATASET:
            events.append(op(f"model/{name}_1", name, us(start, cost)))
            start += cost + SLACK_US
    space = space_of(
        host(
            line("python")(*events),
            thread("tf_data_iterator", 3)(iterator("Root::Shuffle", us(0, costs[DATASET]))),
        ),
        gpu(0)(stream(13, "Compute")(kernel("gemm", us(0, 3), op="dense/Mul:Mul"))),
    )
    return Made(logs=write(folder, space), costs=costs)


@pytest.fixture(scope="module")
def unequal(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return made(tmp_path_factory.mktemp("unequal"), different_costs())


@pytest.fixture(scope="module")
def equal(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return made(tmp_path_factory.mktemp("equal"), dict.fromkeys(types(), 50))


@pytest.fixture(scope="module")
def document(unequal: Made, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("json") / "report.json"
    with pytest.raises(SystemExit):
        main(["report", str(unequal.logs), "--json", str(file)])
    told: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return told


def test_the_data_begin_with_what_costs_most(document: dict[str, Any], unequal: Made) -> None:
    """What does harm first, what is by design last; within each, what costs most."""
    findings = document["findings"]
    rank = {"harmful": 0, "harmless": 1, "by_design": 2}
    told = [(rank[f["harm"]], -f["cost"]["host_us"]) for f in findings]

    assert told == sorted(told)
    assert sorted(-cost for _, cost in told) == sorted(map(float, unequal.costs.values()))
    assert [o["type"] for o in document["findings"][0]["ops"]] == [DEAREST]


def order(run: Run, rules: Sequence[Cause] | None = None) -> list[tuple[str, str]]:
    return [(f.cause, f.id) for f in diagnose(run, rules).findings]


def test_what_costs_the_same_is_always_in_the_same_order(equal: Made, tmp_path: Path) -> None:
    """Whatever the order in which the ops ran, and with whatever else."""
    turned = made(tmp_path, dict(reversed(equal.costs.items())))

    assert len(order(equal.run)) == FINDINGS
    assert order(equal.run) == order(equal.run) == order(turned.run)
    assert order(equal.run) == sorted(order(equal.run))

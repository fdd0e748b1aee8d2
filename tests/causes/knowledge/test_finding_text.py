"""Phrases that findings share."""

import pytest

from tests.causes.examples import blocker, cpu_op, line
from tests.emulator.oracle import the_oracle
from traceanalyzer.causes import BlockedOps
from traceanalyzer.causes.knowledge.finding_text import blocker_text
from traceanalyzer.model import Fix
from traceanalyzer.placement.blocker import Blocker, BlockerKind
from traceanalyzer.placement.devices import asks_for_cpu
from traceanalyzer.placement.explanations import PlacementExplanation

SPELLINGS = [
    "CPU", "cpu:0", "CPU:0", "/CPU", "/cpu:0", "/device:CPU:0", "/device:CPU:*", "device:cpu:0",
    "/job:localhost/replica:0/task:0/device:CPU:0", "/job:ps/task:1", "GPU:0", "/gpu:1",
    "/device:GPU:0", "/job:worker/task:0/device:GPU:1", "", "/job:cpu/task:0",
]  # fmt: skip


def test_a_request_is_read_as_tensorflow_reads_it() -> None:
    outcome = the_oracle().run("tests.placement.lookups:device_types", SPELLINGS, gpus=0)

    assert [kind == "CPU" for kind in outcome.value] == [asks_for_cpu(d) for d in SPELLINGS]


@pytest.mark.parametrize("kind", list(BlockerKind), ids=lambda kind: kind.value)
def test_every_kind_of_blocker_has_a_text(kind: BlockerKind) -> None:
    text = blocker_text(blocker(kind.value, "Add", requested_device="/device:CPU:0", frame=line(5)))

    assert text.endswith("(train.py:5)")
    assert "job:" not in text


@pytest.mark.parametrize(
    ("others", "checked"), [((), True), ((blocker("request", "MatMul"),), False)]
)
def test_a_fix_is_checked_only_without_other_blockers(
    others: tuple[Blocker, ...], *, checked: bool
) -> None:
    first = blocker("attributes", "MatMul", attributes={"T": "int32"})
    explanation = PlacementExplanation(type="MatMul", blockers=(first, *others))
    ops = BlockedOps(((cpu_op("MatMul", explanation=explanation), first),))
    (fix,) = ops.checked([Fix(text="cast", checked=True)])
    assert fix.checked is checked

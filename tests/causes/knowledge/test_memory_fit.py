"""The data that a scope keeps on the CPU, compared with the memory of the GPU."""

from dataclasses import replace
from typing import Any

import pytest

from tests.causes.examples import Example, blocker, captured, cpu_op, line
from traceanalyzer.attribution import attribute
from traceanalyzer.capture_file.document import CaptureFile, Resource, Signature
from traceanalyzer.causes import BlockedOps, all_causes
from traceanalyzer.causes.knowledge.gpu_memory import MemoryNote, memory_note
from traceanalyzer.cpu_ops import CpuOp
from traceanalyzer.findings import Finding
from traceanalyzer.placement.blocker import Blocker
from traceanalyzer.placement.explanations import PlacementExplanation
from traceanalyzer.run import Run
from traceanalyzer.tables.graph_nodes import OpRecord

GB, MB = 10**9, 10**6
CPU, GPU = (f"/job:localhost/replica:0/task:0/device:{d}:0" for d in ("CPU", "GPU"))
SCOPE = line(6)


def variable(size: int, name: str = "table:0", device: str = CPU, **fields: Any) -> Resource:  # noqa: ANN401
    plain = {"signature": 0 if device == CPU else -1, "dtype": "float", "shape": None}
    return Resource(name=name, bytes=size, device=device, **{**plain, **fields})


def signature() -> Signature:
    """An op in the scope for the CPU."""
    return Signature(
        op="VarHandleOp",
        is_function=False,
        scope="/CPU:0",
        scope_frame=0,
        frame=-1,
        attributes=-1,
        inputs=(),
        outputs=(),
    )


def run_of(
    *resources: Resource,
    total: int = 8 * GB,
    peak: int = 1 * GB,
    others: int = 0,
) -> Run:
    """A run whose first op is of a signature, on a machine with one GPU."""
    capture_file = CaptureFile(
        tool="",
        host="h",
        complete=True,
        environment={"tensorflow": {"version": "2.21.0"}},
        devices={
            "logical": [{"name": "/device:GPU:0"}],
            "memory": {"/device:GPU:0": {"peak": peak}},
        },
        gpus=(
            {
                "memory_total_bytes": total,
                "other_processes": [{"pid": 1, "name": "x", "memory_bytes": others}],
            },
        ),
        frames=(SCOPE,),
        signatures=(signature(),),
        resources=resources,
    )
    run = Example(title="", ops=({"name": "Op", "type": "VarHandleOp"},)).run()
    record = OpRecord(frame=None, requested_device="/device:CPU:0", signatures=(0,))
    return captured(run, capture_file, (record,))


def requested(op_type: str = "MatMul", frame: Any = SCOPE) -> tuple[CpuOp, Blocker]:  # noqa: ANN401
    request = blocker(
        "request", op_type, requested_device="/device:CPU:0", scope="/CPU:0", scope_frame=frame
    )
    explanation = PlacementExplanation(
        type=op_type, blockers=(request,), basis="replay", certainty="certain"
    )
    return cpu_op(op_type, explanation=explanation, requested_device="/device:CPU:0"), request


def finding(run: Run, member: tuple[CpuOp, Blocker]) -> Finding:
    failed: dict[str, str] = {}
    (found,) = attribute(run, [member[0]], all_causes(), failed)
    assert not failed
    return found


@pytest.mark.parametrize(
    ("sizes", "others", "words", "modifiers"),
    [
        ((12 * GB,), 0, "the data does not fit, which is likely why", ("memory_pressure",)),
        ((6 * GB,), 0, "the data would fit, but not with its gradient", ()),
        ((6 * GB,), 5 * GB, "other processes used 5.00 GB", ("memory_pressure",)),
        ((5 * GB, 4 * GB), 0, "the scope at train.py:6 contains 9.00 GB (2 variables; ",
         ("memory_pressure",)),
    ],
)  # fmt: skip
def test_what_a_scope_made_is_measured_together_against_what_is_free(
    sizes: tuple[int, ...], others: int, words: str, modifiers: tuple[str, ...]
) -> None:
    elsewhere = variable(3 * GB, "w:0", device=GPU)
    found = finding(run_of(*map(variable, sizes), elsewhere, others=others), requested())

    assert (found.cause, found.certainty) == ("explicit_cpu_placement", "certain")
    assert (found.modifiers, found.ruled_out) == (modifiers, ())
    (size,) = (e.text for e in found.evidence if e.kind == "memory_size")
    assert words in size


def test_what_would_fit_easily_rules_memory_out() -> None:
    found = finding(run_of(variable(2 * MB)), requested())

    assert found.modifiers == ()
    assert [e.kind for e in found.evidence] == ["requested_device"]
    (out,) = found.ruled_out
    assert out.cause == "memory_pressure"
    assert out.because.startswith("table:0 is 2.00 MB, and GPU:0 used at most 1.00 GB")


def test_without_sizes_nothing_is_said() -> None:
    run = run_of(replace(variable(1), bytes=None))
    assert memory_note(run, BlockedOps((requested(),))) == MemoryNote()

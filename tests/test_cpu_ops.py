"""The ops of a run that are on the CPU, or would be on a GPU machine."""

import gc
import weakref
from collections.abc import Callable
from typing import Final

import pytest

from tests.capture_files import Book, node
from tests.causes.examples import Example
from traceanalyzer.capture_file.document import SESSION, SessionConfig
from traceanalyzer.cpu_ops import Analysis, analyse, analyse_on_a_gpu
from traceanalyzer.placement.on_a_gpu import differences
from traceanalyzer.run import Run
from traceanalyzer.tables.graph_nodes import OpRecord

_NOWHERE: Final = OpRecord(
    frame=None, requested_device=None, function="__inference_f_1", node="not there"
)


@pytest.mark.parametrize(
    ("input_types", "blocker"),
    [("?;int32;int32", []), ("int16;int32;int32", ["attributes"]), ("float;int32;int32", [])],
)
def test_an_op_is_not_held_by_a_type_that_the_trace_does_not_tell(
    input_types: str, blocker: list[str]
) -> None:
    """No GPU kernel takes a type without a name; but that is none the op has."""
    gathers = {"name": "GatherV2", "type": "GatherV2", "input_types": input_types}

    (cpu_op,) = analyse(Example(title="", ops=(gathers,)).run()).cpu_ops.values()

    explanation = cpu_op.explanation
    found = explanation.blockers if explanation.basis == "registry" else ()
    assert [each.kind.value for each in found] == blocker


def test_what_was_not_replayed_is_predicted_only_where_its_kernels_settle_it() -> None:
    """An optimizer made these nodes for a CPU: a machine with a GPU may not have them."""
    book = Book()
    book.function("__inference_f_1", node("x", "Relu", attributes=0))
    made = [("fused", "_MklLayerNorm"), ("mm", "_MklMatMul"), ("moved", "Transpose"), ("s", "Eig")]
    run = Example(
        title="",
        ops=tuple({"name": name, "type": kind, "role": "compute"} for name, kind in made),
        facts={"gpu_used": False, "gpu_witness": "", "accelerators": {}},
        capture_file=book.capture_file(
            environment={"tensorflow": {"version": "2.21.0"}}, attributes=({"T": "float"},)
        ),
        record=_NOWHERE,
    ).run()

    found = analyse_on_a_gpu(run)

    assert found is not None
    assert [s.type for s in found.cpu_ops.values()] == ["Eig"]
    assert len(found.not_replayed) == len(made)


@pytest.mark.parametrize("device_counts", [({"GPU": 0}, {}), ({}, {})])
def test_an_op_of_two_sessions_may_have_no_gpu_in_one_of_them(
    device_counts: tuple[dict[str, int], ...],
) -> None:
    book = Book()
    book.function(SESSION, node("y", "Tanh", attributes=0))
    configs = tuple(
        SessionConfig(is_own=True, is_local=True, soft_placement=True, device_count=count)
        for count in device_counts
    )
    capture_file = book.capture_file(
        environment={"tensorflow": {"version": "2.21.0"}},
        attributes=({"T": "float"},),
        session_configs=configs,
    )
    run = Example(
        title="",
        ops=({"name": "y", "type": "Tanh", "role": "compute"},),
        facts={"gpu_used": False, "gpu_witness": "", "accelerators": {}},
        capture_file=capture_file,
        record=OpRecord(frame=None, requested_device=None, function=SESSION, node="y"),
    ).run()

    found = analyse_on_a_gpu(run)

    assert found is not None
    assert not found.cpu_ops
    hides_gpu = {"GPU": 0} in device_counts
    assert bool(found.unsure) is hides_gpu
    assert any("device_count" in said for said in differences(capture_file)) is hides_gpu


@pytest.mark.parametrize(
    ("is_on", "op_type", "dtype", "is_unsure", "on_host"),
    [
        (True, "Relu", "float", True, False),
        (True, "Relu", "double", False, False),
        (False, "Relu", "float", False, False),
        (True, "AddV2", "int32", True, True),  # computed on the host wherever it is
        (False, "AddV2", "int32", False, True),
    ],
)
def test_what_an_optimizer_may_move_to_the_host_is_not_surely_on_a_gpu(
    op_type: str, dtype: str, *, is_on: bool, is_unsure: bool, on_host: bool
) -> None:
    book = Book()
    book.function("unknown_graph", node("x", op_type, attributes=0))
    run = Example(
        title="",
        ops=({"name": "x", "type": op_type, "role": "compute", "input_types": dtype},),
        facts={"gpu_used": False, "gpu_witness": "", "accelerators": {}},
        capture_file=book.capture_file(
            environment={"tensorflow": {"version": "2.21.0"}},
            devices={"optimizer_options": {"pin_to_host_optimization": is_on}},
            attributes=({"T": dtype},),
        ),
        record=OpRecord(frame=None, requested_device=None, function="unknown_graph", node="x"),
    ).run()

    found = analyse_on_a_gpu(run)

    assert found is not None
    assert (found.replayed, found.cpu_ops, bool(found.unsure)) == (1, {}, is_unsure)
    assert bool(found.on_host) is on_host


@pytest.mark.parametrize("analysed", [analyse, analyse_on_a_gpu])
def test_a_run_is_not_kept_for_that(analysed: Callable[[Run], Analysis]) -> None:
    facts = {} if analysed is analyse else {"gpu_used": False}
    eig = {"name": "Eig", "type": "Eig"}
    run = Example(
        title="", ops=(eig,), facts=facts, capture_file=Book().capture_file(), record=_NOWHERE
    ).run()
    cpu_ops = analysed(run).cpu_ops
    gone = weakref.ref(run)

    del run
    gc.collect()

    assert gone() is None
    assert len(cpu_ops) == 1

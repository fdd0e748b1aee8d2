"""From the blockers of ops to findings."""

import pytest

from tests.causes.examples import Example, blocker, cpu_op, line
from traceanalyzer.attribution import attribute
from traceanalyzer.causes import all_causes
from traceanalyzer.cpu_ops import CpuOp
from traceanalyzer.findings import Finding
from traceanalyzer.placement.blocker import Blocker
from traceanalyzer.placement.explanations import PlacementExplanation


def explained(*blockers: Blocker, is_complete: bool = True) -> PlacementExplanation:
    return PlacementExplanation(
        type=blockers[0].type,
        blockers=blockers,
        basis="replay",
        certainty="certain",
        is_complete=is_complete,
    )


def scope(op_type: str, number: int) -> Blocker:
    """The request of a scope that a line opens."""
    frame = line(number)
    asks = {"requested_device": "/device:CPU:0", "scope": "/CPU:0", "scope_frame": frame}
    return blocker("request", op_type, **asks)


def scoped(op_id: str, number: int) -> CpuOp:
    """An op on the CPU by a scope of `train_step` that a line opens."""
    explanation = explained(scope("Exp", number))
    return cpu_op("Exp", op_id=op_id, line=number + 1, explanation=explanation)


def findings_of(*cpu_ops: CpuOp) -> dict[tuple[str, ...], Finding]:
    run = Example(title="", ops=({"name": "Exp", "type": "Exp"},)).run()
    failed: dict[str, str] = {}
    found = attribute(run, cpu_ops, all_causes(), failed)
    assert not failed
    return {finding.op_ids: finding for finding in found}


def test_each_scope_of_a_function_has_a_finding() -> None:
    found = findings_of(scoped("late", 9), scoped("early", 6), scoped("again", 9))

    assert found.keys() == {("late", "again"), ("early",)}
    assert "train.py:9" in found["late", "again"].title
    assert "train.py:6" not in found["late", "again"].title


def test_findings_of_several_scopes_keep_their_ids_when_lines_move() -> None:
    before = findings_of(scoped("late", 9), scoped("early", 6))
    after = findings_of(scoped("early", 106), scoped("late", 112))

    assert {ids: f.id for ids, f in before.items()} == {ids: f.id for ids, f in after.items()}
    assert len({f.id for f in before.values()}) == 2
    assert findings_of(scoped("early", 6))["early",].id == before["early",].id


def with_two_blockers(first: Blocker) -> Finding:
    """The finding of an op that a scope keeps on the CPU, too."""
    explanation = explained(first, scope(first.type, 3))
    (found,) = findings_of(cpu_op(first.type, explanation=explanation)).values()
    return found


def test_what_several_things_hold_moves_when_all_are_changed_and_that_is_said() -> None:
    found = with_two_blockers(blocker("attributes", "MatMul", attributes={"T": "int32"}))

    needed, *each = found.fixes
    assert "all of them" in needed.text
    assert any("tf.cast" in (fix.code or "") for fix in each)
    assert any("tf.device" in (fix.code or "") for fix in each)
    assert not any(fix.checked for fix in found.fixes)


def test_no_scope_is_to_be_left_by_an_op_that_has_no_gpu_kernel() -> None:
    found = with_two_blockers(blocker("no_kernel", "Eig"))

    assert not any("tf.device" in (fix.code or "") for fix in found.fixes)


def test_an_op_that_a_library_keeps_on_the_cpu_is_left_to_it() -> None:
    """Nobody moves the strings of a checkpoint into an input pipeline."""
    saver = line(9, is_user=False, file="/site-packages/tensorflow/python/checkpoint/checkpoint.py")
    asks = blocker(
        "request", "StringJoin", requested_device="/device:CPU:0", scope="/cpu:0", scope_frame=saver
    )
    explanation = explained(blocker("no_kernel", "StringJoin"), asks)
    (found,) = findings_of(cpu_op("StringJoin", explanation=explanation)).values()

    assert not any("pipeline" in fix.text for fix in found.fixes)
    assert any("CheckpointOptions" in (fix.code or "") for fix in found.fixes)


def test_a_python_function_of_the_program_is_not_the_librarys_that_calls_it() -> None:
    """TensorFlow requests the CPU for an eager `tf.py_function`."""
    file = "/site-packages/tensorflow/python/ops/script_ops.py"
    asks = {"requested_device": "/device:CPU:0", "scope_frame": line(640, is_user=False, file=file)}
    explanation = explained(blocker("request", "EagerPyFunc", **asks))
    (found,) = findings_of(cpu_op("EagerPyFunc", explanation=explanation)).values()

    assert found.cause == "python_callback"


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_scope_is_to_be_left_only_if_a_replay_moves_the_op_then(*, is_complete: bool) -> None:
    explanation = explained(scope("Exp", 3), is_complete=is_complete)
    (found,) = findings_of(cpu_op("Exp", explanation=explanation)).values()

    assert any("tf.device" in (fix.code or "") for fix in found.fixes) is is_complete


def test_all_that_writes_a_summary_is_of_its_cause_and_ops_with_like_blockers_are_together() -> (
    None
):
    """Encoding, joining texts and the like: nothing but the summary asks for them."""
    file = "/site-packages/tensorflow/python/ops/summary_ops_v2.py"
    asks = {"requested_device": "/device:CPU:0", "scope_frame": line(792, is_user=False, file=file)}
    own_blockers = {
        "Shape": (),
        "EncodePng": (blocker("no_kernel", "EncodePng"),),
        "AsString": (blocker("no_kernel", "AsString"),),
        "Pack": (blocker("attributes", "Pack", attributes={"T": "string"}),),
    }
    found = findings_of(
        *(
            cpu_op(op, op_id=op, explanation=explained(*own, blocker("request", op, **asks)))
            for op, own in own_blockers.items()
        )
    )

    assert {ids: {b.cause for b in f.blockers} for ids, f in found.items()} == {
        ("Shape",): set(),
        ("EncodePng", "AsString"): {"library_cpu_placement", "no_gpu_kernel"},
        ("Pack",): {"library_cpu_placement", "dtype_unsupported"},
    }
    assert len({f.id for f in found.values()}) == len(found)
    for each in found.values():
        assert (each.cause, each.sub_reason) == ("library_cpu_placement", "summary")
        (fix,) = each.fixes
        assert str(fix.code).startswith("with tf.summary.record_if(")

"""Which ops and findings share a change: made-up ops on the CPU, without TensorFlow."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from tests.capture_files import Book
from tests.causes.examples import Example, blocker, cpu_op, line, resource
from tests.changes.applied import diff_of
from traceanalyzer.attribution import attribute
from traceanalyzer.capture_file.source_lines import FileStatements
from traceanalyzer.causes import all_causes
from traceanalyzer.changes import Change, Saving
from traceanalyzer.changes.placement import PlacementChanges
from traceanalyzer.changes.source import Sources
from traceanalyzer.cpu_ops import CpuOp
from traceanalyzer.placement.blocker import Blocker
from traceanalyzer.placement.explanations import PlacementExplanation

_PROGRAM = """\
import tensorflow as tf

HOST = "/CPU:0"
with tf.device(HOST):
    items = tf.Variable(tf.zeros([9, 4]), name="items")
asked = tf.Variable(tf.zeros([9], tf.int32), name="asked")

def step(ids):
    with tf.device(HOST):
        return tf.matmul(ids, ids)
"""


class _Counted:
    """Savings that count ops."""

    def of_placement(
        self,
        op_ids: Collection[str],
        alone: Collection[str],
        *,
        is_prediction: bool,  # noqa: ARG002 - as `Savings` has it
    ) -> Saving:
        """The number of ops that move, and how many of them need no other change."""
        return Saving(kind="proxy", high_us=len(set(op_ids)), note=f"{len(set(alone))} alone")


def op(op_id: str, op_type: str, *blockers: Blocker, at: int = 10, **fields: Any) -> CpuOp:  # noqa: ANN401
    """An op of train.py on the CPU by some blockers."""
    explanation = PlacementExplanation(
        type=op_type,
        blockers=blockers,
        basis="replay",
        certainty="certain",
        is_complete=True,
        **fields,
    )
    return cpu_op(op_type, op_id=op_id, line=at, explanation=explanation)


def scope(at: int, op_type: str = "MatMul") -> Blocker:
    """A scope for the CPU that a line enters."""
    return blocker(
        "request",
        op_type,
        requested_device="/device:CPU:0",
        scope="/CPU:0",
        scope_frame=line(at),
        frame=line(at + 1),
    )


def on_cpu(name: str, made_at: int, scope_at: int | None = None, dtype: str = "float") -> Blocker:
    """A variable on the CPU: by its dtype, or by the scope that it was created in."""
    return blocker(
        "assigned",
        "_Arg",
        link="resource",
        requested_device="/device:CPU:0",
        resource=resource(name, dtype),
        made_at=line(made_at),
        scope=None if scope_at is None else "/CPU:0",
        scope_frame=None if scope_at is None else line(scope_at),
        types=("int64",) if dtype == "int32" else None,
    )


def changes(*ops: CpuOp, **of_finding: Any) -> list[Change]:  # noqa: ANN401 - any field of it
    """The changes for ops of the program above, whose findings have some fields."""
    run = Example(title="", ops=({"name": "Exp", "type": "Exp"},)).run()
    failed: dict[str, str] = {}
    findings = attribute(run, ops, all_causes(), failed)
    assert not failed
    findings = [replace(finding, **of_finding) for finding in findings]
    file = FileStatements("train.py", _PROGRAM.split("\n"))
    lines = range(1, _PROGRAM.count("\n") + 1)
    statements = tuple(each for number in lines for each in file.at(number))
    capture_file = replace(Book().capture_file(), statements=statements)
    of = PlacementChanges(
        capture_files=[capture_file],
        sources=Sources([capture_file]),
        savings=_Counted(),  # type: ignore[arg-type]
        is_soft=True,
        loops={},
    )
    return of.of({o.op_id: o for o in ops}, findings, all_causes())


def test_a_scope_is_one_change_whatever_its_ops_and_causes() -> None:
    """The variable's creation, and the ops that read and write it."""
    (change,) = changes(
        op("make", "VarHandleOp", scope(4, "VarHandleOp"), at=5),
        op("read", "ResourceGather", on_cpu("items", 5, scope_at=4), at=20),
        op("write", "ResourceScatterSub", on_cpu("items", 5, scope_at=4), at=30),
    )

    assert set(change.op_ids) == {"make", "read", "write"}
    assert len(change.finding_ids) == 2
    assert change.title == "Create `items` on the GPU"
    assert change.place == ("train.py", 3)
    assert diff_of(change.edits).endswith('-HOST = "/CPU:0"\n+HOST = "/GPU:0"\n')


def test_scopes_with_one_edit_are_one_change() -> None:
    """Both use the constant whose definition is edited."""
    (change,) = changes(
        op("make", "VarHandleOp", scope(4, "VarHandleOp"), at=5),
        op("product", "MatMul", scope(9)),
    )

    assert change.op_ids == ("make", "product")
    assert change.needs == ()


def test_an_int32_variable_is_one_change_at_the_line_that_creates_it() -> None:
    uses = [
        op(f"use{number}", kind, on_cpu("asked", 6, dtype="int32"), at=20 + number)
        for number, kind in enumerate(["ReadVariableOp", "AssignAddVariableOp", "ReadVariableOp"])
    ]

    (change,) = changes(*uses)

    assert change.title == "Create `asked` as int64"
    assert (change.place, len(change.op_ids), change.is_verified) == (("train.py", 6), 3, True)


def test_ops_with_two_blockers_need_both_changes() -> None:
    ints = blocker("attributes", "MatMul", attributes={"T": "int32"}, given={"T": "int32"})
    found = changes(
        op("both", "MatMul", replace(ints, frame=line(10)), scope(9)),
        op("one", "Exp", scope(9)),
    )

    cast, moved = sorted(found, key=lambda change: change.title)
    assert (cast.needs, moved.needs) == ((moved.id,), (cast.id,))
    assert (moved.saving.high_us, moved.saving.note) == (2, "1 alone")
    assert (cast.saving.high_us, cast.saving.note) == (1, "0 alone")


def test_what_follows_an_op_is_part_of_its_change() -> None:
    leader = blocker("no_kernel", "Eig", name="Eig", function="f", frame=line(10))
    follower = replace(leader, link="follows")
    found = changes(
        replace(op("eig", "Eig", leader), node=("f", "Eig")),
        op("const", "Const", follower, at=12),
    )

    assert [set(change.op_ids) for change in found] == [{"eig", "const"}]
    assert found[0].place == ("train.py", 10)


def test_a_title_does_not_name_the_place_beside_it() -> None:
    leader = blocker("no_kernel", "StringToNumber", name="to", function="f", frame=line(10))
    strings = replace(op("to", "StringToNumber", leader), node=("f", "to"))

    (change,) = changes(strings, op("product", "MatMul", replace(leader, link="class"), at=12))

    assert change.title.startswith("Avoid ")
    assert (change.place, "train.py" in change.title) == (("train.py", 10), False)


def test_ops_of_one_call_that_a_library_preprocesses_are_one_change() -> None:
    """Whatever the scope requests the CPU for: the layer goes into the input pipeline."""
    keras = line(9, is_user=False, file="/site-packages/keras/src/layers/preprocessing/hashing.py")
    ops = [
        op(kind, kind, replace(scope(4, kind), scope_frame=keras), at=277, library=keras)
        for kind in ("StringLower", "StaticRegexReplace", "StridedSlice")
    ]

    (change,) = changes(*ops)

    assert (change.kind, change.place, change.edits) == ("library", ("train.py", 277), ())
    assert "dataset.map" in change.instead
    assert change.around
    assert change.effort == "restructure"


def test_a_library_that_offers_no_way_around_an_op_is_named_and_advice_is_given_once() -> None:
    keras = line(199, is_user=False, file="/site-packages/keras/src/trainers/adapter.py")
    no_kernel = blocker("no_kernel", "SerializeSparse", frame=keras)

    (change,) = changes(op("sparse", "SerializeSparse", no_kernel, at=115, library=keras))

    assert change.title == "Avoid SerializeSparse in Keras"
    assert change.place == ("train.py", 115)
    assert "There is nothing to change in your code" in change.around
    assert not change.instead


def test_without_lines_ops_of_one_finding_are_one_change_and_others_have_their_own() -> None:
    """A trace alone has no lines, and the advice names the op."""
    unknown = {"line": None, "file": None}
    ops = [
        cpu_op(kind, op_id=op_id, explanation=op(op_id, kind, no_kernel).explanation, **unknown)
        for op_id, kind in (("a", "SparseAdd"), ("b", "SparseAdd"), ("c", "SerializeSparse"))
        for no_kernel in [blocker("no_kernel", kind)]
    ]

    found = changes(*ops)

    assert [set(change.op_ids) for change in found] == [{"a", "b"}, {"c"}]


@pytest.mark.parametrize("kind", ["StringJoin", "WriteSummary"])
def test_work_that_belongs_on_the_host_is_no_change(kind: str) -> None:
    assert changes(op("host", kind, blocker("no_kernel", kind), scope(9, kind))) == []


def test_no_scope_is_removed_if_a_replay_without_it_finds_the_cpu() -> None:
    stays = op("stays", "MatMul", scope(9))
    assert stays.explanation.is_complete

    incomplete = replace(stays.explanation, is_complete=False)
    assert changes(replace(stays, explanation=incomplete)) == []


def test_what_may_not_fit_the_gpu_is_not_moved_there() -> None:
    """The scope may be there because of the memory: the edit would end in an error."""
    finding = {"modifiers": ("memory_pressure",)}

    (change,) = changes(op("product", "MatMul", scope(9)), **finding)

    assert change.edits == ()
    assert change.title == "Keep only the data in the scope"
    assert "Gather the values that a step needs" in change.instead


def test_a_change_keeps_its_id_when_lines_move() -> None:
    (before,) = changes(op("product", "MatMul", scope(9)))
    (after,) = changes(op("product", "MatMul", scope(90), at=100))

    assert before.id == after.id


def test_changes_of_scopes_in_one_function_have_distinct_ids() -> None:
    found = changes(op("one", "Exp", scope(90, "Exp")), op("two", "Log", scope(190, "Log")))

    assert len({change.id for change in found}) == 2

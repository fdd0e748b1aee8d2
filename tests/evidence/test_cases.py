"""What of all that holds an op is told of as its own cause."""

from __future__ import annotations

from traceanalyzer.evidence.cases import without_copies
from traceanalyzer.evidence.examples import held, line


def test_a_request_that_was_copied_is_gone_with_the_one_it_was_copied_from() -> None:
    variable = held("resource", "VariableV2", "class", name="emb", asked="/device:CPU:0")
    slot = held("resource", "VariableV2", "class", name="emb/Adam", copied_from="emb")
    update = held("request", "Mul", name="update", copied_from="emb")
    other = held("request", "Add", "class", name="other")
    assert without_copies([variable, slot, update, other]) == (variable, other)


def test_a_copy_alone_is_a_cause() -> None:
    kernel = held("no_kernel", "AsString", "class", name="text")
    update = held("request", "Mul", name="update", copied_from="text")
    assert without_copies([kernel, update]) == (kernel, update)
    again = held("request", "Mul", name="again", copied_from="update")
    assert without_copies([again, update]) == (again, update)


def test_the_ends_of_an_inlined_function_ask_for_what_their_neighbours_do() -> None:
    scoped = held("request", "TensorListStack", name="map/stack", asked="/device:CPU:0")
    end = held(
        "request", "Identity", "class", name="Func/cond/then/_30/input/_89", asked="/device:CPU:0"
    )
    assert without_copies([scoped, end]) == (scoped,)
    assert without_copies([end]) == (end,)


def test_what_groups_ops_is_no_cause_of_its_own() -> None:
    variable = held("resource", "VariableV2", "class", name="emb", asked="/device:CPU:0")
    library = line(9, is_user=False, file="/lib/site-packages/tensorflow/python/ops/group.py")
    made = {"name": "update/group_deps", "asked": "/device:CPU:0"}
    grouped = held("request", "NoOp", "class", scope_frame=library, **made)
    assert without_copies([variable, grouped]) == (variable,)
    assert without_copies([grouped]) == (grouped,)
    by_user = held("request", "NoOp", "class", scope_frame=line(6), **made)
    assert without_copies([variable, by_user]) == (variable, by_user)

"""Of each thing that can keep an op from a GPU exactly one rule says that it is of its cause."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, get_args

import pytest

from traceanalyzer.evidence.examples import call, held, line, resource, subject
from traceanalyzer.evidence.held import Link
from traceanalyzer.placement.blockers import Hold
from traceanalyzer.rules import all_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.evidence.analysis import Subject
    from traceanalyzer.evidence.held import Held

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
USER = line(3)
KERAS = line(40, is_user=False, file="/lib/site-packages/keras/src/layers/hashing.py")
TENSORFLOW = line(
    40, is_user=False, file="/lib/site-packages/tensorflow/python/ops/summary_ops_v2.py"
)
STRATEGY = line(
    40, is_user=False, file="/lib/site-packages/tensorflow/python/distribute/central_storage.py"
)

# What holds the op itself, and the cause it is of.
OWN: list[tuple[str, str, dict[str, Any], str]] = [
    ("no_kernel", "RandomShuffle", {}, "no_gpu_kernel"),
    ("no_kernel", "StringJoin", {}, "no_gpu_kernel"),
    ("no_kernel", "PyFunc", {}, "python_callback"),
    ("no_kernel", "PyFuncStateless", {}, "python_callback"),
    ("no_kernel", "FastGelu", {}, "custom_op"),
    ("attributes", "MatMul", {"attributes": {"T": "int32"}}, "dtype_unsupported"),
    ("attributes", "Concat", {"attributes": {"T": "string"}}, "dtype_unsupported"),
    ("attributes", "ArgMax", {"attributes": {"Tidx": "int64"}}, "dtype_unsupported"),
    ("attributes", "ArgMax", {"attributes": {"T": "int32", "Tidx": None}}, "dtype_unsupported"),
    ("attributes", "VarHandleOp", {"attributes": {"dtype": "int32"}}, "dtype_unsupported"),
    ("attributes", "EagerPyFunc", {"attributes": {"Tin": ["int32"]}}, "python_callback"),
    ("attributes", "FastGelu", {"attributes": {"T": "int32"}}, "custom_op"),
    (
        "attributes",
        "GatherNd",
        {"attributes": {"bad_indices_policy": {"s": "ERROR"}}},
        "attr_unsupported",
    ),
    (
        "attributes",
        "GatherNd",
        {"attributes": {"Tparams": "int8", "bad_indices_policy": {"s": "ERROR"}}},
        "attr_unsupported",
    ),
    ("attributes", "Conv2DBackpropInput", {"attributes": {"_kernel": None}}, "attr_unsupported"),
    ("attributes", "TopK", {"attributes": {"index_type": None}}, "attr_unsupported"),
    ("host_list", "TensorListLength", {}, "dtype_unsupported"),
    ("priority", "OptionalNone", {}, "kernel_priority"),
    ("priority", "FastGelu", {}, "custom_op"),
    ("small_inputs", "AddV2", {}, "small_int_pinning"),
    ("optimizer", "Mul", {}, "grappler_pin_to_host"),
    ("host_memory", "AddV2", {"attributes": {"T": "int32"}}, "host_memory_kernel"),
    (
        "request",
        "MatMul",
        {"asked": CPU, "scope": CPU, "scope_frame": USER},
        "explicit_cpu_placement",
    ),
    ("request", "MatMul", {"asked": CPU}, "explicit_cpu_placement"),
    (
        "request",
        "FastGelu",
        {"asked": CPU, "scope": CPU, "scope_frame": USER},
        "explicit_cpu_placement",
    ),
    (
        "request",
        "PyFunc",
        {"asked": CPU, "scope": CPU, "scope_frame": USER},
        "explicit_cpu_placement",
    ),
    (
        "request",
        "MatMul",
        {"asked": CPU, "scope": CPU, "scope_frame": KERAS},
        "library_cpu_placement",
    ),
    (
        "request",
        "Cast",
        {"asked": CPU, "scope": CPU, "scope_frame": TENSORFLOW},
        "library_cpu_placement",
    ),
    (
        "request",
        "Mul",
        {"asked": CPU, "scope": CPU, "scope_frame": STRATEGY},
        "distribution_strategy_cpu",
    ),
    ("request", "MatMul", {"asked": CPU, "copied_from": "StringJoin"}, "colocation_group"),
    ("default_device", "MatMul", {"asked": CPU, "call": call("/CPU:0")}, "caller_device_scope_cpu"),
    (
        "default_device",
        "MatMul",
        {"asked": CPU, "function": "__inference_Dataset_map_f_3"},
        "host_pipeline",
    ),
    (
        "default_device",
        "MatMul",
        {"asked": CPU, "function": "__inference_Dataset_map_f_3", "for_step": True},
        "inside_dataset",
    ),
    ("assigned", "_Arg", {"asked": CPU}, "resource_on_cpu"),
    ("assigned", "_Arg", {"asked": CPU, "resource": resource("table:0")}, "resource_on_cpu"),
    ("resource", "VarHandleOp", {"asked": CPU}, "resource_on_cpu"),
    (
        "resource",
        "VarHandleOp",
        {"asked": CPU, "scope": CPU, "scope_frame": USER},
        "resource_on_cpu",
    ),
    (
        "resource",
        "VarHandleOp",
        {"asked": CPU, "scope": CPU, "scope_frame": STRATEGY},
        "distribution_strategy_cpu",
    ),
]
# What holds another op drags this one along, whatever it is.
BY_LINK = {
    "resource": "resource_on_cpu",
    "class": "colocation_group",
    "follows": "follows_neighbour",
}


def cases() -> Iterator[tuple[str, Subject, Held]]:
    """Every combination, with the rule whose it is."""
    for (hold, op, fields, cause), link, is_eager in product(OWN, get_args(Link), (False, True)):
        place = {} if is_eager else {"name": op, "function": "__inference_train_step_12"}
        where = {} if not is_eager else {"function": ""}
        holder = held(hold, op, link=link, **{**place, **fields})
        if link == "own":
            yield cause, subject(op, **where), holder
        elif not is_eager and cause not in {"distribution_strategy_cpu", "host_memory_kernel"}:
            yield BY_LINK[link], subject("Identity"), holder
    yield (
        "resource_on_cpu",
        subject("ReadVariableOp", function=""),
        held("resource", "ReadVariableOp", link="resource", asked=CPU, resource=resource("v:0")),
    )


CASES = list(cases())


@pytest.mark.parametrize(
    ("cause", "op", "holder"), CASES, ids=[f"{h.link}-{h.hold.value}-{h.type}" for _, _, h in CASES]
)
def test_one_rule_knows_it(cause: str, op: Subject, holder: Held) -> None:
    known = [rule.id for rule in all_rules() if rule.recognises(op, holder) is not None]

    assert known == [cause]


def test_every_way_to_hold_an_op_is_among_these() -> None:
    assert {Hold(hold) for hold, *_ in OWN} == {*Hold}
    assert {*BY_LINK, "own"} == {*get_args(Link)}


def test_every_rule_that_recognises_anything_is_among_these() -> None:
    plain = next(r.recognises for r in all_rules() if r.words is None)

    recognising = {rule.id for rule in all_rules() if rule.recognises is not plain}

    assert recognising == {cause for cause, *_ in CASES}

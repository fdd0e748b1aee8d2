"""What is said of variables is so in the kernel registry."""

from __future__ import annotations

import pytest

from tests.causes.examples import Example, blocker, cpu_op, line, resource
from traceanalyzer.attribution import attribute
from traceanalyzer.causes import all_causes
from traceanalyzer.causes.resource_on_cpu import CAUSE
from traceanalyzer.placement.explanations import PlacementExplanation


def test_another_type_is_proposed_for_a_variable_of_int32_alone() -> None:
    codes, titles = {}, {}
    for dtype in ("int32", "float"):
        found = blocker(
            "resource",
            "AssignAddVariableOp",
            "resource",
            requested_device="/device:CPU:0",
            resource=resource("step:0", dtype=dtype),
            types=("int64", "float"),
        )
        assert CAUSE.describe is not None
        words = CAUSE.describe([(cpu_op("AssignAddVariableOp"), found)])
        codes[dtype] = [(fix.code, fix.checked) for fix in words.fixes]
        titles[dtype] = words.title

    assert codes["int32"] == [("tf.Variable(value, dtype=tf.int64)", True)]
    assert codes["float"] == [(None, False)]
    assert "int32 variables" in titles["int32"]
    assert "int32" not in titles["float"]


def test_every_scope_that_a_resource_was_made_in_is_named() -> None:
    """The inner one alone does not decide: outside of it the outer one asks for the CPU as well."""
    made = resource("table:0")
    inner, outer = (
        blocker(
            "resource",
            "ResourceGather",
            "resource",
            requested_device="/device:CPU:0",
            resource=made,
            scope=scope,
            scope_frame=line(number),
        )
        for scope, number in (("cpu:0", 6), ("/CPU:0", 3))
    )
    explanation = PlacementExplanation(
        type="ResourceGather",
        blockers=(inner, outer),
        basis="replay",
        certainty="certain",
        is_complete=True,
    )
    gathers = cpu_op("ResourceGather", function="", explanation=explanation)
    run = Example(title="", ops=({"name": "ResourceGather", "type": "ResourceGather"},)).run()

    (finding,), failed = attribute(run, [gathers], all_causes())

    assert not failed
    told = [e.text for b in finding.blockers for e in b.evidence]
    assert [b.cause for b in finding.blockers] == ["resource_on_cpu", "resource_on_cpu"]
    assert told == [
        'table:0 is on /device:CPU:0: created inside tf.device("cpu:0")',
        'table:0 is on /device:CPU:0: created inside tf.device("/CPU:0")',
    ]
    (fix,) = finding.fixes
    assert "outside the CPU scopes (train.py:3, train.py:6)" in fix.text
    assert not fix.checked


def test_strings_are_on_the_host_by_design() -> None:
    found = blocker(
        "assigned",
        "_Arg",
        "resource",
        requested_device="/device:CPU:0",
        resource=resource("s:0", "string"),
    )

    assert CAUSE.describe is not None
    assert CAUSE.describe([(cpu_op("ReadVariableOp"), found)]).harm == "by_design"


@pytest.mark.parametrize(
    ("file", "harm", "told"),
    [
        ("tensorflow/python/ops/data_flow_ops.py", "by_design", "TensorFlow's own"),
        ("keras/src/backend/tensorflow/optimizer.py", "harmful", "Keras's own"),
    ],
)
def test_nobody_is_told_to_change_the_scope_of_a_library(file: str, harm: str, told: str) -> None:
    found = blocker(
        "resource",
        "FIFOQueueV2",
        requested_device="/device:CPU:*",
        scope="CPU",
        scope_frame=line(824, is_user=False, file=f"/lib/site-packages/{file}"),
    )

    assert CAUSE.describe is not None
    words = CAUSE.describe([(cpu_op("FIFOQueueV2"), found)])
    (fix,) = words.fixes
    assert (words.harm, fix.checked) == (harm, False)
    assert told in fix.text

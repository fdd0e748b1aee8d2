"""A resource that was created in several nested scopes."""

from tests.causes.examples import Example, blocker, cpu_op, line, resource
from traceanalyzer.attribution import attribute
from traceanalyzer.causes import all_causes
from traceanalyzer.placement.explanations import PlacementExplanation


def test_all_scopes_around_a_resource_are_named() -> None:
    """The inner one alone does not decide: outside it, the outer one requests the CPU too."""
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

    failed: dict[str, str] = {}
    (finding,) = attribute(run, [gathers], all_causes(), failed)

    assert not failed
    texts = [e.text for b in finding.blockers for e in b.evidence]
    assert [b.cause for b in finding.blockers] == ["resource_on_cpu", "resource_on_cpu"]
    assert texts == [
        'table:0 is on /device:CPU:0, because it was created inside tf.device("cpu:0")',
        'table:0 is on /device:CPU:0, because it was created inside tf.device("/CPU:0")',
    ]
    (fix,) = finding.fixes
    assert "outside the CPU scopes (train.py:3, train.py:6)" in fix.text
    assert not fix.checked

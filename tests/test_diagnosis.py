"""From causes to a diagnosis: causes found and failed, and ops left unexplained."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from tests.causes.examples import Example, captured
from traceanalyzer.capture_file.document import CaptureFile, Frame, VisibilityChoice
from traceanalyzer.causes import Cause
from traceanalyzer.costs import Costs
from traceanalyzer.diagnosis import cpu_ops, diagnose
from traceanalyzer.findings import Finding
from traceanalyzer.model import Certainty, Evidence
from traceanalyzer.report.assemble import assemble
from traceanalyzer.run import Run

US = 10**6


def run_of(*ops: dict[str, Any], **facts: Any) -> Run:  # noqa: ANN401  # any column or fact
    """A run with these ops, called op0, op1, ..."""
    plain = ({"name": f"n{k}", "type": "MatMul", **op} for k, op in enumerate(ops))
    return Example(title="", ops=tuple(plain), facts=facts).run()


def rule_of(
    name: str,
    check: Callable[[Run], Iterable[Finding]],
    not_applicable: Callable[[Run], str | None] = lambda _: None,
) -> Cause:
    return Cause(id=name, check=check, not_applicable=not_applicable)


def finding(cause: str, *op_ids: str, certainty: Certainty = "likely", scope: str = "") -> Finding:
    return Finding(
        cause=cause,
        scope=scope,
        certainty=certainty,
        harm="harmful",
        title="t",
        why="w",
        op_ids=op_ids,
        evidence=(Evidence(kind="k", text="e"),),
    )


def finds(*found: Finding) -> Callable[[Run], Iterable[Finding]]:
    return lambda _: found


class TestRules:
    def test_each_has_an_outcome_in_the_order_given(self) -> None:
        found = diagnose(
            run_of({}),
            [
                rule_of("b", finds(finding("b", "op0"))),
                rule_of("a", finds()),
                rule_of("c", finds(), lambda _: "there is no question"),
            ],
        )

        assert [(o.cause, o.status, o.reason) for o in found.outcomes] == [
            ("b", "fired", None),
            ("a", "silent", None),
            ("c", "not_applicable", "there is no question"),
        ]


class TestExplained:
    def test_the_surest_finding_counts(self) -> None:
        found = diagnose(
            run_of({}, {}),
            [
                rule_of("a", finds(finding("a", "op0", "op1", certainty="possible"))),
                rule_of("b", finds(finding("b", "op0", certainty="certain"))),
                rule_of("c", finds(finding("c", "op0", certainty="likely"))),
            ],
        )

        assert found.explained == {"op0": "certain", "op1": "possible"}

    def test_what_is_not_on_the_cpu_or_no_computation_is_never_unexplained(self) -> None:
        found = diagnose(
            run_of(
                {"placement": "gpu:0"},
                {"placement": "unknown"},
                {"placement": "host_memory"},
                {"placement": "xla"},
                {"role": "transfer"},
                {"role": "runtime"},
                {"role": "input_pipeline"},
                {"placement": "cpu"},
            ),
            [],
        )

        assert found.unexplained["op_id"].tolist() == ["op7"]
        assert cpu_ops(found.run)["op_id"].tolist() == ["op7"]

    def test_shares_are_of_the_cpu_ops_time(self) -> None:
        run = run_of(
            {"host_self_ps": 50 * US},
            {"host_self_ps": 30 * US},
            {"host_self_ps": 15 * US},
            {"host_self_ps": 5 * US},
            {"host_self_ps": 900 * US, "role": "input_pipeline"},
            {"host_self_ps": 900 * US, "placement": "gpu:0"},
        )
        certainties: tuple[Certainty, ...] = ("certain", "likely", "possible")
        rules = [
            rule_of(c, finds(finding(c, f"op{k}", "op4", "op5", certainty=c)))
            for k, c in enumerate(certainties)
        ]

        summary = assemble(diagnose(run, rules)).summary

        assert summary.cpu_ops == 4
        assert summary.cpu_op_us == 100
        assert summary.explained.certain == 0.5
        assert summary.explained.likely == 0.3
        assert summary.explained.possible == 0.15
        assert summary.explained_share == 0.8


@pytest.mark.parametrize(("waited_ps", "harm"), [(5.0, "harmful"), (0.5, "harmless")])
def test_a_setting_that_pins_small_ops_is_harmful_if_the_gpu_waits_for_them(
    waited_ps: float, harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Costs, "exposed_ps", lambda *_: waited_ps)
    monkeypatch.setattr(Costs, "step_ps", lambda _: 100.0)
    pinned = replace(finding("small_int_pinning", "op0"), harm="harmless")

    (found,) = diagnose(run_of({}), [rule_of("small_int_pinning", finds(pinned))]).findings

    assert found.harm == harm


_NO_GPU: dict[str, Any] = {"gpu_used": False, "gpu_witness": "", "accelerators": {}}


def test_a_program_that_hides_the_gpu_has_every_op_on_the_cpu_of_a_gpu_machine_too() -> None:
    line = Frame(file="train.py", line=3, code="<module>", is_user=True, text="os.environ[...] = 1")
    choice = VisibilityChoice(how="CUDA_VISIBLE_DEVICES", value="-1", is_constant=True, frame=0)
    capture_file = CaptureFile(
        tool="", host="h", complete=True, visibility=(choice,), frames=(line,), devices={}
    )
    run = captured(run_of({}, {}, **_NO_GPU), capture_file, (None, None))

    there = assemble(diagnose(run)).on_a_gpu

    assert there is not None
    (found,) = there.findings
    assert (found.cause, found.certainty, len(found.ops)) == ("no_gpu_visible", "certain", 2)
    assert "train.py:3" in found.title
    assert [fix.code for fix in found.fixes] == ["os.environ[...] = 1"]
    assert "unset" not in str(found)


def test_a_line_that_may_hide_no_gpu_where_there_is_one_is_no_cause() -> None:
    line = Frame(file="train.py", line=3, code="<module>", is_user=True)
    choice = VisibilityChoice(how="CUDA_VISIBLE_DEVICES", value="", frame=0)
    devices = {"context_made": True, "logical": [{"name": "/device:CPU:0", "type": "CPU"}]}
    capture_file = CaptureFile(
        tool="", host="h", complete=True, visibility=(choice,), frames=(line,), devices=devices
    )
    report = assemble(diagnose(captured(run_of({}, {}, **_NO_GPU), capture_file, (None, None))))

    here = next(f for f in report.findings if f.cause == "no_gpu_visible")
    assert (here.sub_reason, here.certainty) == (None, "certain")
    assert "train.py" not in here.title
    assert report.on_a_gpu is not None
    (there,) = report.on_a_gpu.findings
    assert there.certainty in {"likely", "possible"}
    assert "condition" in there.why
    assert "on every machine" not in there.why

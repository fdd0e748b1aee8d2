"""A cause or a section that raises an error is named; all others are still there."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.samples import sample
from traceanalyzer import diagnosis as diagnosing
from traceanalyzer.causes import dtype_unsupported
from traceanalyzer.diagnosis import diagnose
from traceanalyzer.model import Report
from traceanalyzer.report import assemble as assembling
from traceanalyzer.report import page as paging
from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.text import plain

NAME = "recommender"  # recorded without a GPU, so that its placement is a prediction


def raising(*_: object, **__: object) -> Any:  # noqa: ANN401 - in place of any function
    msg = "out of luck"
    raise ZeroDivisionError(msg)


def report() -> Report:
    return assemble(diagnose(sample(NAME).run))


def assert_named(report: Report, health_id: str, name: str) -> None:
    (entry,) = (each for each in report.health if each.id == health_id)
    assert entry.severity == "error"
    assert name in entry.message
    assert "ZeroDivisionError: out of luck" in entry.message
    assert report.page is not None
    assert name in plain(report.page.happened)


def test_a_cause_that_fails_in_a_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    before = report()
    assert before.on_a_gpu is not None
    causes = {finding.cause for finding in before.on_a_gpu.findings}
    monkeypatch.setattr(dtype_unsupported, "match", raising)
    after = report()

    assert_named(after, "cause_failed", "dtype")
    assert after.on_a_gpu is not None
    left = {finding.cause for finding in after.on_a_gpu.findings}
    assert left == causes - {"dtype_unsupported"}
    assert {r.cause for r in after.rules if r.status == "failed"} == {"dtype_unsupported"}
    assert before.health == tuple(e for e in after.health if e.id != "cause_failed")


def test_a_prediction_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosing, "analyse_on_a_gpu", raising)

    assert_named(report(), "part_failed", "prediction for a machine with a GPU")


@pytest.mark.parametrize(
    ("module", "function", "named", "is_left"),
    [
        (assembling, "memory", "the use of memory", lambda r: r.memory is None),
        (assembling, "changes_of", "the search for changes", lambda r: r.changes == ()),
        (paging, "scopes_tab", "the tab of scopes", lambda r: r.changes != ()),
        (paging, "cards", "the changes", lambda r: r.changes != ()),
        (paging, "op_details", "the list of single ops", lambda r: r.page.details == {}),
    ],
)
def test_a_section_that_fails(
    module: object,
    function: str,
    named: str,
    is_left: Callable[[Report], bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, function, raising)
    after = report()

    assert_named(after, "part_failed", named)
    assert is_left(after)
    assert after.on_a_gpu is not None
    assert after.on_a_gpu.findings

"""No report says that TensorFlow moved an op for want of memory, contention or cost: it does not.

`tests.test_every_recorded_run` asks the same of the report on every old trace.
"""

from pathlib import Path
from typing import Final

import pytest

from tests.causes.examples import examples_of
from tests.report.false_causes import lies, lies_of, lies_on
from traceanalyzer.causes import BlockedOps, Cause, all_causes
from traceanalyzer.diagnosis import diagnose

GOLDEN: Final = sorted((Path(__file__).resolve().parents[2] / "reports").glob("*/report.json"))


@pytest.mark.parametrize("file", GOLDEN, ids=lambda file: file.parent.name)
def test_no_golden_report_lies(file: Path) -> None:
    assert lies_of(file.read_text(encoding="utf-8")) == []
    assert lies_on(file.with_name("report.html").read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("cause", all_causes(), ids=lambda cause: cause.id)
def test_no_cause_lies(cause: Cause) -> None:
    said = [cause.documentation]
    runs, blockers = examples_of(cause.id)
    for example in runs:
        for finding in diagnose(example.run(), [cause]).findings:
            said += [finding.title, finding.why, *(e.text for e in finding.evidence)]
            said += [fix.text for fix in finding.fixes]
    for each in blockers:
        if each.fires:
            text = cause.described(BlockedOps(((each.cpu_op, each.blocker),)))
            said += [text.title, text.why, *(fix.text for fix in text.fixes)]

    assert [lie for text in said for lie in lies(text)] == []

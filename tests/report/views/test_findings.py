from __future__ import annotations

from traceanalyzer.report.views.findings import cause_title


def test_causes_in_words() -> None:
    assert cause_title("no_gpu_visible") == "no GPU visible"

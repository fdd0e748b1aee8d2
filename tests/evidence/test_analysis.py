"""The ops of a run on the CPU: gone through once, however many rules ask."""

from __future__ import annotations

import gc
import weakref

from traceanalyzer.evidence.analysis import analyse
from traceanalyzer.rules import Example


def test_a_run_is_gone_through_once() -> None:
    example = Example(title="", ops=({"name": "Eig", "type": "Eig"},))
    run, other = example.run(), example.run()

    first = analyse(run)

    assert [s.name for s in first.subjects] == ["Eig"]
    assert analyse(run).subjects is first.subjects
    assert analyse(other).subjects is not first.subjects


def test_a_run_is_not_kept_for_that() -> None:
    run = Example(title="", ops=({"name": "Eig", "type": "Eig"},)).run()
    subjects = analyse(run).subjects
    gone = weakref.ref(run)

    del run
    gc.collect()

    assert gone() is None
    assert len(subjects) == 1

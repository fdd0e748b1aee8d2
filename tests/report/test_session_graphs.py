"""Session graphs that a version of TensorFlow does not dump are named as a hole."""

import pytest

from tests.capture_files import Book
from tests.causes.examples import Example
from traceanalyzer.capture_file.document import CaptureFile, SessionConfig
from traceanalyzer.diagnosis import diagnose
from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.text import plain

CONFIG = SessionConfig(is_own=False, is_local=True, soft_placement=True)
OLDER = {"tensorflow": {"version": "2.12.1"}}


def answer(capture_file: CaptureFile, function: str | None) -> str:
    ops = ({"name": "y", "type": "Tanh", "function": function, "is_eager": False},)
    facts = {"gpu_used": False, "gpu_witness": "", "accelerators": {}}
    run = Example(title="", ops=ops, facts=facts, capture_file=capture_file).run()
    page = assemble(diagnose(run)).page
    assert page is not None
    return plain(page.happened)


@pytest.mark.parametrize(
    ("function", "configs", "is_hole"),
    [(None, (CONFIG,), True), (None, (), False), ("train_step", (CONFIG,), False)],
)
def test_a_hole(function: str | None, configs: tuple[SessionConfig, ...], *, is_hole: bool) -> None:
    made = Book().capture_file(environment=OLDER, session_configs=configs)

    words = answer(made, function)

    assert ("graphs of sessions are not recorded with TensorFlow 2.12.1" in words) is is_hole

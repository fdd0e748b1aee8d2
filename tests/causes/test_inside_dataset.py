"""Layers of a model that the input pipeline calls, without and with a GPU."""

from pathlib import Path
from typing import Final

import pytest

from tests.emulator.captures import captured
from traceanalyzer.changes.find import changes_of
from traceanalyzer.diagnosis import diagnose
from traceanalyzer.report.page import page_of
from traceanalyzer.report.text import plain

_PROGRAM: Final = Path(__file__).parents[1] / "twin/programs/layers_in_a_pipeline.py"
# The call of the layers, or the line that puts them into the model.
_LINES: Final = {
    at
    for at, text in enumerate(_PROGRAM.read_text().splitlines(), 1)
    if ".map(encoder)" in text or "encoder = " in text
}


@pytest.mark.parametrize("gpus", [0, 1])
def test_a_layer_in_the_pipeline_stays_on_the_cpu_and_is_said(gpus: int) -> None:
    diagnosis = diagnose(captured(_PROGRAM, gpus=gpus).run())

    changes = changes_of(diagnosis)
    first = next(change for change in changes if change.is_by_placement)
    assert first.place is not None
    assert first.place[1] in _LINES
    assert "step" in first.title
    ops = diagnosis.run.ops.set_index("op_id").loc[list(first.op_ids)]
    assert {"Mean", "AddV2"} <= {*ops["type"]}
    assert any("Conv2D" in op for op in ops["type"])
    # What prepares the images, and the generator's own variable, belong there.
    assert not any("Stateless" in op or op == "RngReadAndSkip" for op in ops["type"])

    page = page_of(diagnosis, changes)
    said = plain((*page.happened, " ", *page.next))
    assert "needs no change" not in said
    assert "runs entirely on the GPU" not in said
    there = diagnosis.on_a_gpu
    findings = diagnosis.findings if there is None else there.findings
    found = [each for each in findings if each.cause == "inside_dataset"]
    assert [each.certainty for each in found] == ["certain"]

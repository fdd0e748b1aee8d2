"""The arguments for which TensorFlow traced functions, as captures record them."""

import re

import pytest

import traceanalyzer as ta
from tests.emulator.captures import captured
from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.changes import Change, changes_of
from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.text import plain

_PROGRAM = """
import tensorflow as tf

class Grid:
    def __init__(self, spacing):
        self.spacing = spacing
        self.heat = tf.Variable(tf.random.normal((16, 16)))

    def __repr__(self):
        raise RuntimeError("the recorder must not run this")

    @tf.function
    def diffuse(self, source, rate, *, label="a"):
        self.heat.assign_add(rate * tf.tanh(tf.matmul(source, self.heat)))
        return tf.reduce_mean(self.heat)

@tf.function
def longest(words):
    return tf.reduce_max(tf.cast(words, tf.float32)) * 2.0

@tf.function
def spread(x, grid):
    return x * grid.spacing

grid = Grid(2.0)
for day in range(12):
    print(int(grid.diffuse(tf.ones((16, 16)), 0.5 ** day) > 0))
    longest(tf.range(3 + day))
    spread(tf.ones(4), Grid(float(day)))
    doubled = tf.function(lambda y: y + y)
    doubled(tf.ones(2))
    spread(tf.ones(4), grid)
"""


@pytest.fixture(scope="module")
def file() -> CaptureFile:
    return captured(_PROGRAM, gpus=1).capture_file()


def texts(file: CaptureFile, code: str, argument: str) -> list[str]:
    own = [each for each in file.tracings if each.code == code]
    return [a.text for each in own for a in each.arguments if a.name == argument]


def test_arguments_are_recorded_without_running_code_of_the_program(file: CaptureFile) -> None:
    assert texts(file, "diffuse", "source") == ["float32[16,16]"] * 12
    assert texts(file, "diffuse", "rate")[:3] == ["1.0", "0.5", "0.25"]
    assert texts(file, "longest", "words")[:2] == ["int32[3]", "int32[4]"]
    grids = texts(file, "spread", "grid")  # an object may have the place of a deleted one
    assert len(grids) == 13
    assert len(set(grids)) > 3
    assert not [note for note in file.notes if note.id.startswith("recorder_failed")]


def test_objects_and_places_of_functions_are_told_apart(file: CaptureFile) -> None:
    made = {
        code: {t.object for t in file.tracings if t.code == code} for code in ("spread", "<lambda>")
    }
    assert (len(made["spread"]), len(made["<lambda>"])) == (1, 12)
    calls = {file.frames[t.frame].text.strip() for t in file.tracings if t.code == "longest"}
    assert calls == {"longest(tf.range(3 + day))"}


def changes() -> dict[str, Change]:
    run = captured(_PROGRAM, gpus=1).run()
    return {c.title: c for c in changes_of(ta.diagnose(run)) if not c.is_by_placement}


def test_the_argument_that_changes_leads_and_more_steps_per_call_are_no_help() -> None:
    found = changes()

    retracing = {title for title, change in found.items() if change.kind == "retracing"}
    assert retracing == {
        "Pass `rate` to `diffuse` as a tensor",
        "Let one graph of `longest` take all shapes of `words`",
        "Pass tensors, or the same object, as `grid` of `spread`",
        "Create the function `<lambda>` once",
    }
    assert next(iter(found)) in retracing
    assert "Run several steps per call" not in found
    line = _PROGRAM.split("\n").index("    longest(tf.range(3 + day))") + 1
    place = found["Let one graph of `longest` take all shapes of `words`"].place
    assert place is not None
    assert place[1] == line


@pytest.mark.slow
def test_ops_of_a_function_count_once_however_often_it_is_traced() -> None:
    ops = captured(_PROGRAM, gpus=0).run().ops

    own = ops[ops["function"].astype(str) == "diffuse"]
    assert own["type"].tolist().count("Tanh") == 1
    assert own["occurrences"].max() == 12
    assert not ops["function"].astype(str).str.contains("diffuse#").any()


@pytest.mark.parametrize("gpus", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_the_page_leads_with_it(gpus: int) -> None:
    page = assemble(ta.diagnose(captured(_PROGRAM, gpus=gpus).run())).page

    assert page is not None
    assert "tracing and compiling" in plain(page.happened).lower()
    assert re.search("Do this next: (Pass|Let|Create)", plain(page.next))

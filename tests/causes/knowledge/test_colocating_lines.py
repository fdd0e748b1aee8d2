"""Which lines ask for a colocation, by the text of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from traceanalyzer.causes.knowledge.colocating_lines import colocation_request

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """\
import tensorflow as tf
tf1 = tf.compat.v1
with tf1.colocate_with(text):
    a = tf.sqrt(x)
beside = tf1.colocate_with(text) if ASKED else nothing
with beside:
    b = tf.exp(x)
    with tf.device("/CPU:0"):
        c = tf.exp(b)
d = tf1.gradients(
    loss, x, colocate_gradients_with_ops=True)
e = tf1.gradients(loss, x, colocate_gradients_with_ops=False)
f = tf.gradients(loss, x)
g = tf1.gradients(loss, x)
"""
GRADIENT = "step/gradients_1/MatMul_grad/MatMul"


@pytest.mark.parametrize(
    ("line", "node", "asks"),
    [
        (4, "Sqrt", (3, "scope")),
        (7, "Exp", (6, "scope")),
        (9, "Exp", (6, "scope")),
        (5, "Sqrt", None),
        (10, GRADIENT, (10, "argument")),
        (11, GRADIENT, (10, "argument")),
        (10, "Adam/update_w/mul", None),  # an optimizer's own: no argument takes that away
        (12, GRADIENT, None),
        (13, GRADIENT, (13, "gradients")),
        (14, GRADIENT, None),
    ],
)
def test_lines_that_ask(tmp_path: Path, line: int, node: str, asks: tuple[int, str] | None) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    found = colocation_request(str(program), line, node)
    assert (found and (found.line, found.form)) == asks


def test_in_tensorflow_1_gradients_are_not_colocated_unasked(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text("import tensorflow.compat.v1 as tf\ng = tf.gradients(loss, x)\n")
    assert colocation_request(str(program), 2, GRADIENT) is None


def test_of_a_program_that_is_not_there_nothing_is_said(tmp_path: Path) -> None:
    assert colocation_request(str(tmp_path / "gone.py"), 4, "Sqrt") is None
    assert colocation_request(None, None, "Sqrt") is None

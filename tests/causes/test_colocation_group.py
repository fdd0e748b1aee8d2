"""Colocation can be removed only if a line of the program requests it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.causes.examples import blocker, cpu_op
from traceanalyzer.causes.colocation_group import CAUSE

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.causes import FindingText
    from traceanalyzer.cpu_ops import CpuOp
    from traceanalyzer.placement.blocker import Blocker


def said(cpu_op: CpuOp, blocker: Blocker) -> FindingText:
    assert CAUSE.describe is not None
    return CAUSE.describe([(cpu_op, blocker)])


def test_an_optimizers_own_colocation_is_nothing_to_change(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text("train = optimizer.minimize(loss, colocate_gradients_with_ops=True)\n")
    update = cpu_op("Mul", name="Adam/update_emb/mul", file=str(program), line=1)

    words = said(update, blocker("resource", "VariableV2", "class", name="emb"))

    (fix,) = words.fixes
    assert fix.code is None


def test_the_line_that_requests_it_is_named(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text("with tf.compat.v1.colocate_with(text):\n    y = tf.exp(x)\n")
    exp = cpu_op("Exp", file=str(program), line=2)

    words = said(exp, blocker("no_kernel", "AsString", "class", name="text"))

    (fix,) = words.fixes
    assert "`colocate_with` (train.py:1)" in fix.text

"""What avoids ops of a library: its own switches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.causes.examples import line
from traceanalyzer.causes.knowledge.library_code import around, switch_of


def test_nothing_is_made_up_for_other_code() -> None:
    frame = line(9, is_user=False, file="/env/models/zoo.py")
    assert switch_of("TopKV2", frame) is None
    assert "newer version" in around("TopKV2", frame).text


_LOOKUP = "/env/keras/src/layers/preprocessing/index_lookup.py"


@pytest.mark.parametrize(
    ("op", "code"),
    [("HashTableV2", "_lookup_table_from_tokens"), ("LookupTableInsertV2", "update_state")],
)
def test_making_such_a_layer_is_not_told_to_move_ahead_of_the_model(op: str, code: str) -> None:
    """A lookup after the model makes a table too, and `adapt` is no part of a model."""
    frame = replace(line(975, is_user=False, file=_LOOKUP), code=code)
    fix = around(op, frame)
    assert "nothing to change" in fix.text
    assert fix.code is None

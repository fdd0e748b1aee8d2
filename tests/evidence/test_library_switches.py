"""What avoids ops of a library: its own switches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from traceanalyzer.evidence.cases import Case
from traceanalyzer.evidence.examples import held, line, subject
from traceanalyzer.evidence.library_switches import around, switch_of
from traceanalyzer.rules.inside_dataset import RULE

_RECOMMENDERS = "/env/tensorflow_recommenders/layers/factorized_top_k.py"


@pytest.mark.parametrize(
    ("op", "file", "part_of_code"),
    [
        ("TopKV2", _RECOMMENDERS, "compute_metrics=not training"),
        ("Sum", "/env/keras/src/metrics/auc.py", "metrics=[]"),
        ("ResizeArea", "/env/keras/src/layers/resizing.py", "bilinear"),
    ],
)
def test_a_library_s_own_switch_is_named(op: str, file: str, part_of_code: str) -> None:
    frame = line(436, is_user=False, file=file)
    fix = switch_of(op, frame)
    assert fix is not None
    assert part_of_code in str(fix.code)
    assert around(op, frame) == fix


def test_nothing_is_made_up_for_other_code() -> None:
    frame = line(9, is_user=False, file="/env/models/zoo.py")
    assert switch_of("TopKV2", frame) is None
    assert "newer version" in around("TopKV2", frame).text


def test_a_metric_that_searches_all_candidates_is_left_out_of_training() -> None:
    assert RULE.words is not None
    frame = line(436, is_user=False, file=_RECOMMENDERS)
    for library, codes in ((frame, 1), (None, 3)):
        case = Case(type="TopKV2", certainty="likely", library=library)
        inside = held("default_device", "TopKV2", for_step=True)
        fixes = RULE.words([(subject("TopKV2", case=case), inside)]).fixes
        assert len(fixes) == codes
        assert ("compute_metrics" in str(fixes[0].code)) is (library is not None)


_LOOKUP = "/env/keras/src/layers/preprocessing/index_lookup.py"


def test_a_preprocessing_layer_goes_ahead_of_the_model_and_into_the_one_that_serves() -> None:
    fix = switch_of("LookupTableFindV2", line(855, is_user=False, file=_LOOKUP))
    assert fix is not None
    assert "export a second model" in fix.text
    assert "dataset.map" in str(fix.code)
    assert "keras.Model(raw, model(layer(raw)))" in str(fix.code)


def test_no_model_serves_augmented_images() -> None:
    file = "/env/keras/src/layers/preprocessing/image_preprocessing/random_crop.py"
    fix = switch_of("StatelessRandomUniformIntV2", line(9, is_user=False, file=file))
    assert fix is not None
    assert "dataset.map" in str(fix.code)
    assert "serve" not in fix.text


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

"""What tells eager ops apart; `test_recorded.py` has them recorded."""

from __future__ import annotations

from typing import Any

import pytest

from traceanalyzer.recorder.eager import _hashable


@pytest.mark.parametrize(
    "attributes",
    [
        ("output_types", [1, 2], "output_shapes", [(3,), (None, 4)]),
        ("f", {"name": "a function"}),
        ("nested", [[1], [2]]),
        ("none", []),
        (),
    ],
)
def test_equal_attributes_stand_for_one_op(attributes: tuple[Any, ...]) -> None:
    again = tuple(list(v) if isinstance(v, list) else v for v in attributes)
    assert {_hashable(attributes): 7}[_hashable(again)] == 7


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("types", [1, 2]), ("types", [2, 1])),
        (("types", [1, 2]), ("types", [1])),
        (("types", [1], "shapes", []), ("types", [], "shapes", [1])),
        (("f", {"name": "a"}), ("f", {"name": "b"})),
        (("nested", [[1], [2]]), ("nested", [[1, 2]])),
    ],
)
def test_others_stand_for_others(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    assert _hashable(one) != _hashable(other)

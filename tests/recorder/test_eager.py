"""What tells eager ops apart; `test_recorded.py` has them recorded."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from traceanalyzer.recorder.eager import _told

PLAIN = frozenset({str, int, bytes})


class Function:
    """As TensorFlow's: told by its name, of which no other has the same."""

    def __init__(self, name: bytes = b"__inference_map_7") -> None:
        self.name = name

    def __call__(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    "attributes",
    [
        ("output_types", [1, 2], "output_shapes", [(3,), (None, 4)]),
        ("f", {"name": "a function"}),
        ("f", Function(), "Targuments", []),
        ("nested", [[1], [2]]),
        (),
    ],
)
def test_equal_attributes_stand_for_one_op(attributes: tuple[Any, ...]) -> None:
    again = tuple(list(v) if isinstance(v, list) else v for v in attributes)
    again = tuple(Function(v.name) if isinstance(v, Function) else v for v in again)
    assert {_told(attributes, PLAIN, {}): 7}[_told(again, PLAIN, {})] == 7


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("types", [1, 2]), ("types", [2, 1])),
        (("types", [1, 2]), ("types", [1])),
        (("types", [1], "shapes", []), ("types", [], "shapes", [1])),
        (("f", {"name": "a"}), ("f", {"name": "b"})),
        (("f", Function(b"a")), ("f", Function(b"b"))),
        (("nested", [[1], [2]]), ("nested", [[1, 2]])),
    ],
)
def test_others_stand_for_others(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    assert _told(one, PLAIN, {}) != _told(other, PLAIN, {})


def test_what_stands_for_a_function_does_not_keep_it() -> None:
    function = Function()
    is_alive = weakref.ref(function)
    told = _told(("f", function, "output_types", [1]), PLAIN, {})
    del function
    gc.collect()
    assert is_alive() is None
    assert told == ("f", "__inference_map_7", "output_types", (1,))

"""In which way an op asks TensorFlow for something that it has not made ready so far."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import tensorflow as tf
from tensorflow.core.framework.attr_value_pb2 import NameAttrList

from traceanalyzer.recorder.frames import FramePool
from traceanalyzer.recorder.journal import Journal
from traceanalyzer.recorder.origins import Origins
from traceanalyzer.recorder.scopes import Scopes
from traceanalyzer.recorder.signatures import Signatures

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def signatures(tmp_path: Path) -> Signatures:
    pool = FramePool()
    scopes = Scopes(pool, Origins(lambda _: -1))
    return Signatures(Journal(str(tmp_path / "journal")), pool, scopes)


def is_new_way(signatures: Signatures, op: str, scope: str = "", **attributes: Any) -> bool:  # noqa: ANN401
    """Have an op of one input come by, from a line of its own; return what is said of it."""
    given = [each for pair in attributes.items() for each in pair]
    key = ("line", len(signatures.numbers))
    number = signatures.add_op(key, op, None, scope, (tf.constant([1.0]),), tuple(given))
    return signatures.is_new_way(number)


def function(name: str) -> NameAttrList:
    return NameAttrList(name=name)


def test_another_line_asks_for_what_is_ready(signatures: Signatures) -> None:
    assert is_new_way(signatures, "Tanh")
    assert not is_new_way(signatures, "Tanh")


def test_another_op_or_scope_does_not(signatures: Signatures) -> None:
    assert is_new_way(signatures, "Tanh")
    assert is_new_way(signatures, "Tanh", "/device:CPU:0")
    assert is_new_way(signatures, "Sinh")


def test_an_attribute_that_is_no_function_has_no_graph(signatures: Signatures) -> None:
    assert is_new_way(signatures, "Cast", DstT=tf.int32.as_datatype_enum)
    assert not is_new_way(signatures, "Cast", DstT=tf.int64.as_datatype_enum)


@pytest.mark.parametrize(
    ("op", "attribute", "functions"),
    [
        ("MapDataset", "f", [function("f"), function("g")]),
        ("MapDataset", "f", [SimpleNamespace(name=b"f"), SimpleNamespace(name=b"g")]),
        (
            "StatelessCase",
            "branches",
            [[function("f"), function("f")], [function("f"), function("g")]],
        ),
    ],
)
def test_another_function_among_the_attributes_is_another_way(
    signatures: Signatures, op: str, attribute: str, functions: list[Any]
) -> None:
    first, second = functions
    assert is_new_way(signatures, op, **{attribute: first})
    assert is_new_way(signatures, op, **{attribute: second})
    assert not is_new_way(signatures, op, **{attribute: first})

"""Attributes as the journal writes them."""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2

from traceanalyzer.capturing.recorder.ops.attributes import as_json


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (True, True),
        (3, 3),
        (0.5, 0.5),
        (None, None),
        ("SAME", {"s": "SAME"}),
        (b"caf\xc3\xa9 \xff", {"s": "café \\xff"}),
        ("x" * 2000, {"s": "x" * 1000}),
        ([1, (2, "a")], [1, [2, {"s": "a"}]]),
        (tf.float32, "float"),
        (tf.resource, "resource"),
        ([tf.int64, tf.string], ["int64", "string"]),
        (tf.dtypes.DType(101), "float_ref"),
        (tf.TensorShape([2, None]), {"shape": [2, -1]}),
        (tf.TensorShape(None), {"shape": None}),
        (tf.TensorShape([]), {"shape": []}),
        (tf.make_tensor_proto([[1.0, 2.0]]), {"tensor": "float", "shape": [1, 2]}),
        (attr_value_pb2.NameAttrList(name="body"), {"func": "body"}),
        (1j, {"s": "1j"}),
    ],
)
def test_a_value_is_written_with_its_kind(value: object, written: object) -> None:
    assert as_json(value) == written


def test_the_contents_of_a_tensor_are_not_kept() -> None:
    assert "31415" not in str(as_json(tf.make_tensor_proto([31415])))

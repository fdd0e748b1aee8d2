"""Runs the code of substitutes, in a fork of the oracle's process, where TensorFlow is imported."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import types_pb2
from tensorflow.core.framework.node_def_pb2 import NodeDef

from traceanalyzer.placement.kernel_types import python_name

Code: TypeAlias = "tuple[str, str, str, str]"  # op, function that makes it, code, type of the data


def run_all(codes: Sequence[Code]) -> None:
    """Run each code in a function of its own, so that TensorFlow places it."""
    for op, function, code, dtype in codes:
        names = {"tf": tf, **arguments(dtype)}

        def run(code: str = code, names: dict[str, Any] = names) -> None:
            exec(code, dict(names))  # noqa: S102 - it is ours

        run.__name__ = f"code_{op}{function}_{dtype}"
        with suppress(tf.errors.OpError):
            tf.function(run, autograph=False)()


def nodes_of(codes: Sequence[Code]) -> list[list[tuple[str, dict[str, Any]]]]:
    """Return op and attributes of the nodes of each code, and of the functions that it calls."""
    return [list(_nodes_of(code, dtype)) for _, _, code, dtype in codes]


def _nodes_of(code: str, dtype: str) -> Iterator[tuple[str, dict[str, Any]]]:
    names = arguments(dtype)
    run = tf.function(lambda: exec(code, names), autograph=False)  # noqa: S102 - it is ours
    graph = run.get_concrete_function().graph.as_graph_def()
    for nodes in (graph.node, *(function.node_def for function in graph.library.function)):
        for node in nodes:
            yield node.op, types_of(node)


def differences(codes: Sequence[Code]) -> list[Code]:
    """Return the codes that do not give the result of the op that they replace."""
    return [code for code in codes if not _is_same(*code)]


def _is_same(op: str, function: str, code: str, dtype: str) -> bool:
    names = arguments(dtype)
    expected = ORIGINALS[op, function](names)
    exec(code, names)  # noqa: S102 - it is ours
    found = [_plain(names[result]) for result in _results(code, expected)]
    return all(
        one.shape == other.shape
        and np.allclose(
            one.astype("complex128"),
            other.astype("complex128"),
            rtol=1e-2 if dtype == "half" else 1e-4,
            atol=1e-3,
        )
        for one, other in zip(found, map(_plain, expected), strict=True)
    )


def arguments(dtype: str) -> dict[str, Any]:
    """The names that pieces of code use."""
    of = tf.as_dtype(python_name(dtype))
    floating = of if of.is_floating else tf.float32
    number = of if of.is_floating or of.is_integer else tf.float32
    matrix = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])
    rng = np.random.default_rng(7)

    def random(*shape: int) -> Any:  # noqa: ANN401 - a tensor
        return tf.constant(rng.uniform(size=shape), floating)

    return {
        "tf": tf,
        "x": tf.cast(tf.constant([3, 1, 2, 3, 5, 1, 0, 7]), of),
        "n": 3,
        "k": 2,
        "rows": 3,
        "columns": 4,
        "width": 3,
        "size": [4, 4],
        "index": tf.range(8, dtype=tf.int64),
        "images": random(2, 8, 8, 3),
        "boxes": tf.constant([[0, 0, 1, 1], [0, 0, 0.9, 1], [0.5, 0.5, 1, 1]], tf.float32),
        "box_indices": tf.constant([0, 1, 0]),
        "scores": tf.constant([0.9, 0.8, 0.7], tf.float32),
        "max_output_size": 3,
        "iou_threshold": 0.5,
        "score_threshold": 0.1,
        "samples": tf.constant(rng.uniform(size=(2048, 2)), tf.float32),
        "window_size": 400,
        "stride": 200,
        "logits": random(5, 2, 4),
        "labels": tf.sparse.from_dense(tf.constant([[1, 2, 0], [2, 1, 1]])),
        "logit_length": tf.constant([5, 5]),
        "y_true": tf.constant([[1, 2, 0], [2, 1, 0]]),
        "y_pred": tf.nn.softmax(random(2, 5, 4)),
        "label_length": tf.constant([[2], [3]]),
        "input_length": tf.constant([[5], [5]]),
        "targets": tf.constant([0, 1], of if of in {tf.int32, tf.int64} else tf.int32),
        "predictions": tf.constant(rng.uniform(size=(2, 4)), tf.float32),
        "matrix": tf.constant(matrix, of if of.is_complex else floating),
        "rhs": tf.ones([3, 1], of if of.is_complex else floating),
        "sparse": tf.sparse.from_dense(
            tf.constant([[1, 0], [0, 0], [-2, -3]], number)  # one row is empty, one negative
        ),
        "dense": tf.constant([[1, 2], [3, 4], [5, 6]], number),
        "ragged": tf.RaggedTensor.from_row_lengths(tf.constant([1, 2, 3], number), [2, 0, 1]),
    }


def _nms(n: dict[str, Any]) -> tuple[Any, ...]:
    kept, scores, _ = tf.raw_ops.NonMaxSuppressionV5(
        boxes=n["boxes"],
        scores=n["scores"],
        max_output_size=n["max_output_size"],
        iou_threshold=n["iou_threshold"],
        score_threshold=n["score_threshold"],
        soft_nms_sigma=0.0,
    )
    return kept, scores


def _sparse(op: str, n: dict[str, Any], **more: Any) -> Any:  # noqa: ANN401 - a tensor
    s = n["sparse"]
    return getattr(tf.raw_ops, op)(
        **more, **dict(zip(_SPARSE[op], (s.indices, s.values, s.dense_shape), strict=True))
    )


_REDUCED = ("input_indices", "input_values", "input_shape")
_DENSE = ("sp_indices", "sp_values", "sp_shape")
_SPARSE = {
    "SparseReduceMax": _REDUCED,
    "SparseReduceSum": _REDUCED,
    "SparseDenseCwiseMul": _DENSE,
    "SparseDenseCwiseDiv": _DENSE,
    "SparseTensorDenseAdd": ("a_indices", "a_values", "a_shape"),
}
# The original of each code: the op itself, or the function that makes it.
ORIGINALS: dict[tuple[str, str], Callable[[dict[str, Any]], tuple[Any, ...]]] = {
    ("AudioSpectrogram", ""): lambda n: (
        tf.raw_ops.AudioSpectrogram(
            input=n["samples"],
            window_size=n["window_size"],
            stride=n["stride"],
            magnitude_squared=True,
        ),
    ),
    ("CTCLoss", ""): lambda n: (
        tf.compat.v1.nn.ctc_loss(n["labels"], n["logits"], n["logit_length"]),
    ),
    ("CTCLoss", "ctc_batch_cost"): lambda n: (
        tf.keras.backend.ctc_batch_cost(
            n["y_true"], n["y_pred"], n["input_length"], n["label_length"]
        ),
    ),
    ("InTopK", ""): lambda n: (
        tf.raw_ops.InTopK(predictions=n["predictions"], targets=n["targets"], k=n["k"]),
    ),
    ("MatrixLogarithm", ""): lambda n: (tf.raw_ops.MatrixLogarithm(input=n["matrix"]),),
    ("MatrixSolveLs", ""): lambda n: (tf.linalg.lstsq(n["matrix"], n["rhs"], fast=False),),
    ("MatrixSquareRoot", ""): lambda n: (tf.raw_ops.MatrixSquareRoot(input=n["matrix"]),),
    ("NonMaxSuppression", ""): lambda n: (
        tf.raw_ops.NonMaxSuppression(
            boxes=n["boxes"],
            scores=n["scores"],
            max_output_size=n["max_output_size"],
            iou_threshold=n["iou_threshold"],
        ),
    ),
    ("NonMaxSuppressionV5", ""): _nms,
    ("NthElement", ""): lambda n: (tf.raw_ops.NthElement(input=n["x"], n=n["n"]),),
    ("RaggedTensorToTensor", ""): lambda n: (n["ragged"].to_tensor(shape=[None, n["width"]]),),
    ("SparseDenseCwiseDiv", ""): lambda n: (_sparse("SparseDenseCwiseDiv", n, dense=n["dense"]),),
    ("SparseDenseCwiseMul", ""): lambda n: (_sparse("SparseDenseCwiseMul", n, dense=n["dense"]),),
    ("SparseReduceMax", ""): lambda n: (_sparse("SparseReduceMax", n, reduction_axes=[1]),),
    ("SparseReduceSum", ""): lambda n: (_sparse("SparseReduceSum", n, reduction_axes=[1]),),
    ("SparseTensorDenseAdd", ""): lambda n: (_sparse("SparseTensorDenseAdd", n, b=n["dense"]),),
    ("UniqueV2", ""): lambda n: tuple(tf.raw_ops.UniqueV2(x=n["x"], axis=[0])),
    ("UniqueWithCountsV2", ""): lambda n: tuple(tf.raw_ops.UniqueWithCountsV2(x=n["x"], axis=[0])),
    ("UnravelIndex", ""): lambda n: (
        tf.raw_ops.UnravelIndex(indices=n["index"], dims=tf.constant([2, n["columns"]], tf.int64)),
    ),
}


def _results(code: str, expected: tuple[Any, ...]) -> list[str]:
    """The names that a code assigns last, as many as the op has results."""
    assigned = [
        name.strip()
        for line in code.splitlines()
        if " = " in line and not line.startswith(" ")
        for name in line.partition(" = ")[0].split(",")
    ]
    return assigned[-len(expected) :]


def _plain(value: Any) -> Any:  # noqa: ANN401 - an array
    return np.asarray(value.values if isinstance(value, tf.SparseTensor) else value)


def types_of(node: NodeDef) -> dict[str, Any]:
    """The attributes of a node that kernels constrain, in the capture file's encoding."""
    found: dict[str, Any] = {}
    for name, value in node.attr.items():
        kind = value.WhichOneof("value")
        if kind == "type":
            found[name] = type_name(value.type)
        elif kind == "list" and value.list.type:
            found[name] = [type_name(t) for t in value.list.type]
        elif kind == "s":
            found[name] = {"s": value.s.decode(errors="replace")}
    return found


def type_name(number: int) -> str:
    """The capture file's name of a type: TensorFlow's, without its prefix, in small letters."""
    return str(types_pb2.DataType.Name(number)).removeprefix("DT_").lower()

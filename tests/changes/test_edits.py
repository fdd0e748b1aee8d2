"""Edits of single lines."""

from dataclasses import replace

import pytest

from tests.capture_files import Book
from traceanalyzer.capture_file.source_lines import FileStatements
from traceanalyzer.changes import Edit
from traceanalyzer.changes.edits import (
    OpAdvice,
    device_edit,
    op_edit,
    unhiding_edit,
    variable_edits,
)
from traceanalyzer.changes.source import Sources


def sources(text: str, *lines: int) -> Sources:
    """The statements that a capture keeps of a program, at some lines."""
    file = FileStatements("train.py", text.split("\n"))
    statements = tuple(each for line in lines for each in file.at(line))
    return Sources([replace(Book().capture_file(), statements=statements)])


def edited(text: str, *edits: Edit | None) -> str:
    """A program after edits."""
    lines = text.split("\n")
    for edit in sorted((e for e in edits if e is not None), key=lambda e: -e.line):
        at = slice(edit.line - 1, edit.line - 1 + len(edit.old))
        assert tuple(lines[at]) == edit.old
        lines[at] = edit.new
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('with tf.device("/CPU:0"):\n    x = f()', 'with tf.device("/GPU:0"):\n    x = f()'),
        ("with tf.device('cpu'):\n    x = f()", "with tf.device('gpu:0'):\n    x = f()"),
        (
            'with tf.device("/job:worker/device:CPU:1"):  # host\n    x = f()',
            'with tf.device("/job:worker/device:GPU:0"):  # host\n    x = f()',
        ),
        (
            'with keras.device("cpu:0"), open(n) as f:\n    x = f()',
            'with keras.device("gpu:0"), open(n) as f:\n    x = f()',
        ),
        (
            'with tf.device("/CPU:0" if big else None):\n    x = f()',
            'with tf.device("/GPU:0"):\n    x = f()',
        ),
        ('stack.enter_context(tf.device("/CPU:0"))', 'stack.enter_context(tf.device("/GPU:0"))'),
        ("with tf.device(chosen()):\n    x = f()", None),
        ('with tf.device("/GPU:0"):\n    x = f()', None),
        ('with tf.device("/CPU:0"), tf.device("/CPU:0"):\n    x = f()', None),
    ],
)
def test_a_scope_requests_the_gpu(before: str, after: str | None) -> None:
    edit = device_edit(sources(before, 1), "train.py", 1)

    assert (None if edit is None else edited(before, edit)) == after


def test_a_constant_that_names_the_device_is_edited_where_it_is_defined() -> None:
    text = 'HOST = "/CPU:0"\n\ndef f():\n    with tf.device(HOST):\n        return g()'

    edit = device_edit(sources(text, 4), "train.py", 4)

    assert edited(text, edit) == text.replace("CPU", "GPU")


def test_without_soft_placement_the_scope_requests_nothing() -> None:
    """An op without a GPU kernel would fail inside a scope for the GPU."""
    text = 'with tf.device("/CPU:0"):\n    x = f()'

    edit = device_edit(sources(text, 1), "train.py", 1, soft=False)

    assert edited(text, edit) == "with tf.device(None):\n    x = f()"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("v = tf.Variable(0)", "v = tf.Variable(0, dtype=tf.int64)"),
        ("v = tf.Variable([1, 2], trainable=False)",
         "v = tf.Variable([1, 2], trainable=False, dtype=tf.int64)"),
        ("v = tf.Variable(0, dtype=tf.int32)", "v = tf.Variable(0, dtype=tf.int64)"),
        ('v = tf.Variable(0, dtype="int32")', 'v = tf.Variable(0, dtype="int64")'),
        ("self.v = tf.Variable(tf.zeros([9], tf.int32), name='v')",
         "self.v = tf.Variable(tf.zeros([9], tf.int64), name='v')"),
        ("v = tf.Variable(tf.zeros([9], dtype=tf.int32))",
         "v = tf.Variable(tf.zeros([9], dtype=tf.int64))"),
        ("v = tf.Variable(tf.range(9))", "v = tf.Variable(tf.range(9, dtype=tf.int64))"),
        ("v = tf.Variable(np.zeros(9, np.int32))", "v = tf.Variable(np.zeros(9, np.int64))"),
        ("v = tf.Variable(x.astype('int32'))", 'v = tf.Variable(x.astype("int64"))'),
        ("v = tf.Variable(tf.ones([9], tf.int32), dtype=tf.int32)",
         "v = tf.Variable(tf.ones([9], tf.int64), dtype=tf.int64)"),
        ("v = tf.Variable(start)", "v = tf.Variable(tf.cast(start, tf.int64))"),
        ("v = tf.Variable(\n    tf.zeros(\n        [9],\n        tf.int32,\n    )\n)",
         "v = tf.Variable(\n    tf.zeros(\n        [9],\n        tf.int64,\n    )\n)"),
        ('w = self.add_weight(shape=(), dtype="int32", name="n")',
         'w = self.add_weight(shape=(), dtype="int64", name="n")'),
        ("KIND = tf.int32\nv = tf.Variable(tf.zeros([9], KIND))",
         'KIND = tf.int32\nv = tf.Variable(tf.zeros([9], "int64"))'),
        ("a, b = tf.Variable(1), tf.Variable(2)", None),
        ("v = made()", None),
    ],
)  # fmt: skip
def test_a_variable_has_another_dtype(before: str, after: str | None) -> None:
    last = before.count("\n") + 1 if before.startswith("KIND") else 1
    edits = variable_edits(sources(before, last), "train.py", last, "int64")

    assert (edited(before, *edits) if edits else None) == after


@pytest.mark.parametrize(
    ("before", "op", "code", "result", "after"),
    [
        ("y = tf.reduce_mean(x, axis=0)", "Mean", "input = tf.cast(input, tf.float32)", "int64",
         "y = tf.cast(tf.reduce_mean(tf.cast(x, tf.float32), axis=0), tf.int64)"),
        ("y = tf.reduce_max(input_tensor=x)", "Max", "input = tf.cast(input, tf.float32)", "",
         "y = tf.reduce_max(input_tensor=tf.cast(x, tf.float32))"),
        ("return a @ b", "MatMul",
         "a = tf.cast(a, tf.float32)\nb = tf.cast(b, tf.float32)", "int32",
         "return tf.cast(tf.cast(a, tf.float32) @ tf.cast(b, tf.float32), tf.int32)"),
        ("y = tf.matmul(tf.cast(a, tf.int32), b)", "BatchMatMulV2",
         "x = tf.cast(x, tf.float32)\ny = tf.cast(y, tf.float32)", "",
         "y = tf.matmul(tf.cast(a, tf.float32), tf.cast(b, tf.float32))"),
        ("tf.sparse.sparse_dense_matmul(s, b=m)", "SparseTensorDenseMatMul",
         "a_values = tf.cast(a_values, tf.float32)\nb = tf.cast(b, tf.float32)", "",
         "tf.sparse.sparse_dense_matmul(tf.cast(s, tf.float32), b=tf.cast(m, tf.float32))"),
        ("y = tf.image.resize(img, size).numpy()", "ResizeBilinear",
         "images = tf.cast(images, tf.float32)", "",
         "y = tf.image.resize(tf.cast(img, tf.float32), size).numpy()"),
        ("y = tf.gather_nd(x, at)", "GatherNd", 'bad_indices_policy="IGNORE"', "",
         'y = tf.gather_nd(x, at, bad_indices_policy="IGNORE")'),
        ("v.assign_add(tf.math.bincount(x, dtype=tf.int64))", "DenseBincount", "dtype=tf.int32",
         "int64", "v.assign_add(tf.cast(tf.math.bincount(x, dtype=tf.int32), tf.int64))"),
        ("y = tf.math.bincount(x, None, 2, 9, tf.int64)", "DenseBincount", "dtype=tf.int32",
         "int64", "y = tf.cast(tf.math.bincount(x, None, 2, 9, tf.int32), tf.int64)"),
        ("y = tf.math.bincount(x, weights=w)", "DenseBincount", "dtype=tf.int32", "int64", None),
        ("y = tf.math.bincount(x, **how)", "DenseBincount", "dtype=tf.int32", "int64", None),
        ("y = keras.ops.bincount(x)", "DenseBincount", "dtype=tf.int32", "int64", None),
        ("a, b = tf.math.top_k(x, 1)", "TopKV2", "input = tf.cast(input, tf.float64)", "int32",
         None),
        ("y = tf.matmul(a, tf.matmul(b, c))", "MatMul",
         "a = tf.cast(a, tf.float32)\nb = tf.cast(b, tf.float32)", "", None),
        ("y = layer(x)", "Mean", "input = tf.cast(input, tf.float32)", "", None),
        ("y = tf.concat([a, b], 0)", "ConcatV2", "values = tf.cast(values, tf.float32)", "", None),
    ],
)  # fmt: skip
def test_the_line_of_an_op_applies_the_advice(
    before: str, op: str, code: str, result: str, after: str | None
) -> None:
    text = f"{before}\ntf.print(y)"
    advice = OpAdvice(op=op, code=code, result=result)
    edit = op_edit(sources(text, 1, 2), "train.py", 1, advice)

    assert (None if edit is None else edited(before, edit)) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('os.environ["CUDA_VISIBLE_DEVICES"] = "-1"', ""),
        ('if cpu:\n    tf.config.set_visible_devices([], "GPU")', "if cpu:\n    pass"),
        ('os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")', ""),
        ("hide_gpus()", None),
    ],
)
def test_a_line_that_hides_the_gpus_goes(before: str, after: str | None) -> None:
    last = before.count("\n") + 1
    edit = unhiding_edit(sources(before, last), "train.py", last)

    assert (None if edit is None else edited(before, edit)) == after


@pytest.mark.parametrize(
    ("created", "line"),
    [(["()"], 1), (["()", '(["cpu:0", "cpu:1"])', '(["cpu:0"])'], 2), (["()", "()"], None)],
)
def test_a_strategy_is_created_where_only_one_is_or_where_one_names_the_cpu(
    created: list[str], line: int | None
) -> None:
    text = "\n".join(f"s = tf.distribute.MirroredStrategy{each}" for each in created)

    found = sources(text, *range(1, len(created) + 1)).of_strategy()

    assert found == (None if line is None else ("train.py", line))

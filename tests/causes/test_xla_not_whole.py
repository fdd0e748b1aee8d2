"""Functions that XLA cannot compile, by TensorFlow's error, and functions that it compiles."""

import functools
from dataclasses import replace
from typing import Any

import pytest

from tests.causes.examples import examples_of
from tests.emulator.captures import captured
from traceanalyzer.causes import xla_not_whole
from traceanalyzer.diagnosis import Diagnosis, cpu_ops, diagnose
from traceanalyzer.findings import Finding
from traceanalyzer.model import SourceWhere
from traceanalyzer.report.assemble import assemble
from traceanalyzer.run import Run

# Functions that are called within a scope for the CPU are really compiled, beside an emulated GPU.
REFUSED = """\
import tensorflow as tf

@tf.function(jit_compile=True)
def fused(x):
    return tf.reduce_sum(tf.tanh(tf.matmul(x, x)) + 1.0)

@tf.function(jit_compile=True)
def lengths(x):
    y = tf.matmul(x, x)
    return tf.strings.length(tf.strings.as_string(y))

@tf.function(jit_compile=True)
def either(x):
    return tf.cond(x[0, 0] > 2, lambda: tf.linalg.eig(x)[0], lambda: tf.zeros([256], tf.complex64))

@tf.function(jit_compile=True)
def texts(x):
    return tf.size(x)

x = tf.random.uniform([256, 256])
with tf.device("/CPU:0"):
    for _ in range(3):
        fused(x)
        try:
            lengths(x)
        except tf.errors.InvalidArgumentError:
            with tf.device("/CPU:0"):
                y = tf.tanh(x)
    try:
        either(x)
    except tf.errors.OpError:
        pass
    try:
        texts(tf.constant(["a"]))
    except tf.errors.InvalidArgumentError:
        pass
    try:
        tf.reshape(x, [3])
    except tf.errors.InvalidArgumentError:
        pass
"""
HANDLED = """\
import tensorflow as tf

@tf.function(jit_compile=True)
def lengths(x):
    return tf.strings.length(tf.strings.as_string(x))

x = tf.random.uniform([256, 256])
try:
    with tf.device("/CPU:0"): lengths(x)
except tf.errors.InvalidArgumentError:
    with tf.device("/CPU:0"):
        y = tf.tanh(x)
z = tf.tanh(x)
"""
NESTED = """\
import tensorflow as tf

@tf.function(jit_compile=True)
def lengths(x):
    return tf.strings.length(tf.strings.as_string(x))

@tf.function
def outer(x):
    return lengths(x) + 1

outer(tf.ones([4, 4]))
"""
CLUSTERED = """\
import tensorflow as tf

@tf.function
def mixed(x):
    for _ in range(4):
        x = tf.tanh(tf.matmul(x, x)) + 1.0
    y = tf.linalg.eig(x)[0]
    for _ in range(4):
        x = tf.tanh(tf.matmul(x, x)) + 1.0
    return tf.reduce_sum(tf.math.real(y)), tf.reduce_sum(x)

x = tf.random.uniform([128, 128])
for _ in range(3):
    mixed(x)
"""


@functools.cache
def diagnosed(program: str, gpus: int, flags: str = "") -> Diagnosis:
    environment = {"TF_XLA_FLAGS": flags} if flags else {}
    return diagnose(captured(program, gpus=gpus, environment=environment, may_fail=True).run())


def findings_by_function(program: str, gpus: int) -> dict[str, Finding]:
    """The findings of the rule, by the functions that their titles name."""
    findings = [f for f in diagnosed(program, gpus).findings if f.cause == "xla_not_whole"]
    by_function = {
        f.title.removeprefix("XLA cannot compile ").partition(":")[0]: f for f in findings
    }
    assert len(by_function) == len(findings)
    return by_function


def with_error(**changes: Any) -> Run:  # noqa: ANN401 - fields of the error
    """The rule's own example, with another error."""
    run = next(e for e in examples_of("xla_not_whole")[0] if e.fires_on).run()
    (host,) = run.hosts
    assert host.capture_file is not None
    errors = tuple(replace(e, **changes) for e in host.capture_file.errors)
    capture_file = replace(host.capture_file, errors=errors)
    return replace(run, hosts=(replace(host, capture_file=capture_file),))


def lines(finding: Finding) -> list[int | None]:
    return [e.where.line for e in finding.evidence if isinstance(e.where, SourceWhere)]


@pytest.mark.parametrize("gpus", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_each_function_that_xla_refuses_is_said_once_with_the_op_and_its_line(gpus: int) -> None:
    found = findings_by_function(REFUSED, gpus)

    assert {*found} == {"lengths", "either", "texts"}
    assert "no kernel for AsString (train.py:10)" in found["lengths"].title
    assert lines(found["lengths"])[:3] == [25, 10, 26]
    assert "no kernel for Eig (train.py:14)" in found["either"].title
    assert lines(found["either"]) == [30, 14, 31]
    assert "it cannot use the function's argument x" in found["texts"].title
    assert {f.certainty for f in found.values()} == {"certain"}


@pytest.mark.slow
def test_what_the_handler_alone_puts_on_the_cpu_is_explained_by_it() -> None:
    of = diagnosed(HANDLED, 1)
    (one,) = [f for f in of.findings if f.cause == "xla_not_whole"]
    ops = of.run.ops.set_index("op_id")
    assert [ops.loc[i, "type"] for i in one.op_ids] == ["Tanh"]
    assert "then the program put Tanh at train.py:12 on the CPU" in one.title
    assert lines(one) == [9, 5, 10, 11]


def test_ops_that_xla_compiled_are_no_ops_on_the_cpu() -> None:
    types = set(cpu_ops(diagnosed(REFUSED, 1).run)["type"])

    assert "Tanh" in types  # the one of the handler
    assert not types & {"MatMul", "AddV2", "Sum"}


@pytest.mark.slow
def test_an_error_inside_another_functions_call_is_reported() -> None:
    (found,) = findings_by_function(NESTED, 0).values()

    assert "AsString (train.py:5)" in found.title
    assert found.op_ids == ()
    assert lines(found)[:2] == [11, 5]


def test_an_error_that_nothing_caught_is_said_and_reported() -> None:
    run = with_error(handler=-1)
    (host,) = run.hosts
    assert host.capture_file is not None
    (error,) = host.capture_file.errors
    errors = (error, replace(error, where="program"))
    capture_file = replace(host.capture_file, errors=errors)
    of = diagnose(replace(run, hosts=(replace(host, capture_file=capture_file),)))

    (found,) = [f for f in of.findings if f.cause == "xla_not_whole"]
    assert found.sub_reason == "not_caught"
    assert found.op_ids == ()
    assert found.id in {f.id for f in assemble(of).findings}


def test_an_error_whose_handler_is_unknown_is_left_open() -> None:
    (found,) = xla_not_whole.check(with_error(handler=-1))

    assert found.sub_reason is None
    assert "does not show whether the program caught it" in found.why


@pytest.mark.slow
def test_what_a_cluster_leaves_outside_is_placed_as_usual_and_nothing_is_refused() -> None:
    of = diagnosed(CLUSTERED, 0, "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit")

    assert "xla_not_whole" not in {f.cause for f in of.findings}
    types = set(cpu_ops(of.run)["type"])
    assert {"Eig", "_XlaRun"} <= types
    assert not types & {"MatMul", "_XlaCompile", "_XlaMerge"}
    assert of.on_a_gpu is not None
    (outside,) = of.on_a_gpu.findings
    assert outside.cause == "no_gpu_kernel"
    assert "Eig" in outside.title


@pytest.mark.parametrize(
    "message",
    ["", "Detected unsupported operations when trying to compile graph", "when trying to compile"],
)
def test_an_error_with_another_wording_is_reported_as_it_is(message: str) -> None:
    (found,) = xla_not_whole.check(with_error(message=message))

    assert found.title.startswith("XLA cannot compile a function; then the program put MatMul")


def test_of_a_branch_the_function_that_was_called_is_named() -> None:
    """As TensorFlow 2.12 words it."""
    message = (
        "Detected unsupported operations when trying to compile graph cond_true_90[] on "
        "XLA_CPU_JIT: Eig (No registered 'Eig' OpKernel for XLA_CPU_JIT devices compatible with "
        "node {{node cond/Eig}}){{node cond/Eig}}\n\t [[cond]] [Op:__inference_either_104]"
    )

    (found,) = xla_not_whole.check(with_error(message=message))

    assert found.title.startswith("XLA cannot compile either: it has no kernel for Eig;")

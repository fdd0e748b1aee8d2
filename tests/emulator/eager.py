"""Where TensorFlow runs a single eager op: questions, and TensorFlow's own answers.

    questions = [
        EagerQuestion(
            op="AddV2",
            inputs={"x": EagerInput("int32"), "y": EagerInput("int32", device="/CPU:0")},
            scope="/GPU:0",
        ),
        EagerQuestion(op="Range", inputs={...}, attributes={"Tidx": "int32"}),
        EagerQuestion(op="tests.placement.eager_ops:lookup", inputs={"keys": EagerInput("string")}),
    ]
    for answer in answers(the_oracle(), questions):
        answer.device, answer.outputs, answer.error

An op is asked for by its type, as `tf.raw_ops` has it, or by a function `package.module:function`
that gets the inputs and attributes by name. All questions of a call are asked of one process.
This module is imported where the answers are found, so by any version of TensorFlow's interpreter.
"""

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tests.emulator.oracle import Oracle


@dataclass(frozen=True, slots=True)
class EagerInput:
    """A tensor, or a variable, that is made before the op."""

    dtype: str  #: as TensorFlow writes it: `float32`, `int32`, `string`
    shape: tuple[int, ...] = (2, 2)
    device: str = ""  #: the scope that it is made in
    value: Any = None  #: None for ones
    is_variable: bool = False  #: an op gets the variable's resource


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerQuestion:
    """An eager op, and how it is called."""

    op: str  #: an op type, or `package.module:function`
    #: By the argument's name; several for an argument that is a list.
    inputs: Mapping[str, EagerInput | tuple[EagerInput, ...]] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)  #: types as `int32`
    scope: str = ""  #: the `tf.device` around it
    soft_placement: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerOutput:
    """A tensor that an op returned."""

    dtype: str
    device: str  #: `Tensor.device`: that of the op
    backing_device: str  #: the device whose memory holds it


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerAnswer:
    """Where TensorFlow ran an op."""

    #: The device of the op's kernel, also if that failed; "" if none was made. For a function, the
    #: device of the last op it ran.
    device: str
    outputs: tuple[EagerOutput, ...]  #: empty if it failed
    error: str  #: class and message of the exception


def answers(
    oracle: Oracle,
    questions: Sequence[EagerQuestion],
    **options: Any,  # noqa: ANN401 - those of `Oracle.run`
) -> tuple[EagerAnswer, ...]:
    """Ask TensorFlow; options are those of `Oracle.run`.

    Raises:
        RuntimeError: The process ended before all were answered.
    """
    outcome = oracle.run(_answered, tuple(questions), **options)
    if outcome.value is None:
        words = f"exit code {outcome.exit_code}: {outcome.stderr[-2000:]}"
        raise RuntimeError(words)
    return cast("tuple[EagerAnswer, ...]", outcome.value)


def _answered(questions: Sequence[EagerQuestion]) -> tuple[EagerAnswer, ...]:
    """Answer, in the process that has the emulator."""
    return tuple(map(_answer, questions))


def _answer(question: EagerQuestion) -> EagerAnswer:
    import tensorflow as tf  # noqa: PLC0415 - the process that asks has none
    from tensorflow.python.eager import context  # noqa: PLC0415 - as above

    tf.config.set_soft_device_placement(True)
    arguments = {
        name: [_made(i) for i in given] if isinstance(given, tuple) else _made(given)
        for name, given in question.inputs.items()
    }
    tf.config.set_soft_device_placement(question.soft_placement)
    context.context().clear_kernel_cache()  # so that the kernel is made, and its device known
    known = len(_kernels())
    outputs: tuple[EagerOutput, ...] = ()
    error = ""
    try:
        with tf.device(question.scope or None):
            returned = _callable(question.op)(**arguments, **question.attributes)
        outputs = tuple(
            EagerOutput(dtype=t.dtype.name, device=t.device, backing_device=t.backing_device)
            for t in tf.nest.flatten(returned)
            if isinstance(t, tf.Tensor)
        )
    except Exception as raised:  # noqa: BLE001 - an answer
        error = f"{type(raised).__name__}: {raised}"
    made = [line.split("\t")[:2] for line in _kernels()[known:]]
    ours = [device for op, device in made if op == question.op] or [
        device for op, device in made if not op.startswith("_")
    ]
    device = ours[-1] if ours else outputs[-1].device if outputs else ""
    return EagerAnswer(device=device, outputs=outputs, error=error)


def _made(given: EagerInput) -> Any:  # noqa: ANN401 - TensorFlow's
    import tensorflow as tf  # noqa: PLC0415 - as above

    value = ("1" if given.dtype == "string" else 1) if given.value is None else given.value
    with tf.device(given.device or None):
        if given.value is None:
            one = tf.constant(value) if given.dtype == "string" else tf.cast(value, given.dtype)
            tensor = tf.fill(given.shape, one) if given.shape else one
        else:
            tensor = tf.constant(value, given.dtype)
        return tf.Variable(tensor).handle if given.is_variable else tensor


def _callable(name: str) -> Any:  # noqa: ANN401 - TensorFlow's
    import tensorflow as tf  # noqa: PLC0415 - as above

    module, colon, function = name.partition(":")
    return (
        getattr(importlib.import_module(module), function) if colon else getattr(tf.raw_ops, name)
    )


def _kernels() -> list[str]:
    """Return the emulator's log of kernels: lines of op type, device, node."""
    log = Path(os.environ["EMULATOR_RECORD"]) / "kernels"
    return log.read_text(encoding="utf-8").splitlines()

"""A library asks for the CPU.

## What it detects

Ops that run in a `tf.device` scope for the CPU which TensorFlow, Keras or another installed package
opens, not the program.

## Why it happens

Some library code is written to run on the host. What was read in the sources:

- TensorFlow 2.12, 2.18 and 2.21 do so where they write summaries, save and restore checkpoints,
  load saved models (names of files and other strings), make queues and, run eagerly, the global
  step of TensorFlow 1, feed devices from a dataset (`prefetch_to_device`, `MultiDeviceIterator`),
  compute the indices that the gradient of `tf.reduce_prod` needs, fill a constant of booleans, and
  tile variants in `tf.vectorized_map`. The number of a collective op is one too: that is the
  strategy's.
- Keras 3 does since 3.14 in `TextVectorization`, `StringLookup`, `IntegerLookup`, `Hashing` and
  `HashedCrossing` (not in 3.0, 3.8, 3.10, 3.12 and 3.13, nor Keras 2); in 3.15 for elements of a
  Grain pipeline. It makes the variables of an optimizer on the device of the model's variable, be
  it the CPU (3.0, 3.8 and 3.15).
- Keras 2 (2.12, 2.13, 2.15, and tf_keras 2.18) does where GRU and LSTM note how they run, for the
  summary of a model, and from 2.13 on for `PyMetric`.
- An embedding layer opens none in any of these. In TensorFlow 2.2 to 2.5 it did: it put its table
  on the CPU where there was a GPU (2.2.3, 2.4.4 and 2.5.3); Keras 2.6 dropped that.

What the program hands to such code, the function of a summary for one, runs in the scope too.

## How to fix it

Preprocessing layers: into the input pipeline, `dataset.map(layer)`. Summaries and checkpoints: less
often, or asynchronously, and what they are made from outside their scope. A metric in Python: with
TensorFlow's ops. The rest is small, and may stay.

## How sure it is

Certain: the capture recorded the line that opened the scope. Likely for the variables of an
optimizer, as the scope is that of the model's variable, wherever that is. Without a capture it is
possible for the eager `Identity` that copies a value right before its summary is written; for ops
of graphs, names of such code make it one of the causes that are left open.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.frames import library_of, lines_text, same_place
from traceanalyzer.causes._cause import Cause, CauseMatch, FindingText
from traceanalyzer.causes.knowledge.finding_text import is_of_strategy, line_evidence, ops_text
from traceanalyzer.causes.knowledge.host_work import LESS_SUMMARIES
from traceanalyzer.causes.knowledge.library_switches import MAP_AND_SERVE, PREPROCESSING, SERVING
from traceanalyzer.findings import Finding
from traceanalyzer.model import Evidence, Fix
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import device_text
from traceanalyzer.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.capture_file.document import Frame
    from traceanalyzer.evidence.analysis import CpuOp
    from traceanalyzer.model import Harm
    from traceanalyzer.placement.blocker import Blocker
    from traceanalyzer.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Habit:
    """Library code that asks for the CPU.

    Attributes:
        sub_reason: What it is, in a word.
        files: Where it is: ends of paths, or folders with a slash at the end.
        versions: In which releases it does so; those that were read.
        title: What a finding says, with `{library}`, `{part}` (the file's class of layer, or the
            function) and `{ops}`.
        does: What the library does there.
        harm: Whether it hurts.
        because: Why, or why not.
        fixes: What to change.
    """

    sub_reason: str
    files: tuple[str, ...]
    versions: str
    title: str
    does: str
    harm: Harm
    because: str
    fixes: tuple[Fix, ...] = ()


_SUMMARY_HABIT: Final = "summary"
_ALL: Final = "TensorFlow 2.12, 2.18 and 2.21"
_KERAS_2: Final = "Keras 2.12, 2.13 and 2.15, tf_keras 2.18"
# What a file of preprocessing holds, as a program calls it.
_LAYERS: Final = {
    "text_vectorization.py": "TextVectorization",
    "index_lookup.py": "StringLookup or IntegerLookup",
    "hashing.py": "Hashing",
    "hashed_crossing.py": "HashedCrossing",
}

# A test holds these to the sources of the TensorFlow and Keras that are installed.
HABITS: Final = (
    Habit(
        sub_reason="preprocessing_layer",
        files=PREPROCESSING,
        versions="Keras 3.14 and 3.15, not in 3.13",
        title="The layer {part} preprocesses on the CPU, with {ops}",
        does="preprocesses what the layer is called with",
        harm="harmful",
        because="within a model, each step has to wait for it.",
        fixes=(
            Fix(
                text=(
                    "Preprocess in the input pipeline, ahead of the model, and let the model take "
                    "the numbers. " + SERVING
                ),
                code=MAP_AND_SERVE,
            ),
        ),
    ),
    Habit(
        sub_reason=_SUMMARY_HABIT,
        files=(
            "tensorflow/python/ops/summary_ops_v2.py",
            "tensorflow/python/keras/callbacks.py",
            "keras/callbacks.py",
            "keras/src/callbacks.py",
            "tf_keras/src/callbacks.py",
        ),
        versions=f"{_ALL}; {_KERAS_2}",
        title="Summaries are written by the host: {ops}",
        does="writes summaries",
        harm="by_design",
        because=(
            "summaries are written to files by the host. What is given as a function, or computed "
            "in the call, runs there as well."
        ),
        fixes=(LESS_SUMMARIES,),
    ),
    Habit(
        sub_reason="checkpoint",
        files=(
            "tensorflow/python/checkpoint/",
            "tensorflow/python/training/saving/",
            "tensorflow/python/training/saver.py",
            "tensorflow/python/training/checkpoint_utils.py",
            "tensorflow/python/ops/resource_variable_ops.py",
        ),
        versions=_ALL,
        title="Saving or restoring a checkpoint puts {ops} on the CPU",
        does="saves or restores a checkpoint",
        harm="by_design",
        because="files are written and read by the host.",
        fixes=(
            Fix(
                text=(
                    "If it takes a share of the step that counts, save less often, or while the "
                    "training goes on."
                ),
                code="tf.train.CheckpointOptions(enable_async=True)",
            ),
        ),
    ),
    Habit(
        sub_reason="saved_model",
        files=(
            "tensorflow/python/saved_model/load.py",
            "tensorflow/python/trackable/asset.py",
            "tensorflow/python/eager/polymorphic_function/saved_model_utils.py",
        ),
        versions=_ALL,
        title="Loading a saved model makes {ops} on the CPU: names of files and other strings",
        does="keeps names of files and constant strings of a saved model",
        harm="harmless",
        because="it is done once, when the model is loaded or saved.",
    ),
    Habit(
        sub_reason="prefetch_to_device",
        files=(
            "tensorflow/python/data/ops/multi_device_iterator_ops.py",
            "tensorflow/python/data/experimental/ops/prefetching_ops.py",
        ),
        versions=_ALL,
        title="The host's side of an iterator that feeds devices: {ops}",
        does="reads from the dataset on the host, to hand elements to devices",
        harm="by_design",
        because="datasets run on the host; only their elements go to the device.",
    ),
    Habit(
        sub_reason="grain",
        files=(
            "keras/src/layers/preprocessing/data_layer.py",
            "keras/src/utils/grain_utils.py",
            "keras/src/utils/dataset_utils.py",
            "keras/src/utils/image_dataset_utils.py",
        ),
        versions="Keras 3.15",
        title="Keras prepares the elements of a Grain pipeline on the CPU, with {ops}",
        does="prepares the elements of a pipeline that Grain runs",
        harm="by_design",
        because="such a pipeline runs on the host, as one of tf.data does.",
    ),
    Habit(
        sub_reason="dataset",
        files=("tensorflow/python/data/ops/dataset_ops.py",),
        versions=_ALL,
        title="tf.data looks at its own graph on the CPU, by {ops}",
        does="reads back the graph of a dataset that is saved with a model",
        harm="harmless",
        because="it is done once for each dataset.",
    ),
    Habit(
        sub_reason="global_step",
        files=("tensorflow/python/training/training_util.py",),
        versions=_ALL,
        title="The global step is a variable on the CPU, made by {ops}",
        does="makes the variable of `tf.compat.v1.train.create_global_step`, when run eagerly",
        harm="by_design",
        because="it is one number, which the host counts up.",
        fixes=(
            Fix(
                text="Where it is read within a step, count in a variable of your own.",
                code="step = tf.Variable(0, dtype=tf.int64)",
            ),
        ),
    ),
    Habit(
        sub_reason="queue",
        files=("tensorflow/python/ops/data_flow_ops.py",),
        versions=_ALL,
        title="A queue lives in host memory, made by {ops}",
        does="makes a `tf.queue.FIFOQueue`",
        harm="by_design",
        because="what is put into it is copied to the host, and back when it is taken out.",
        fixes=(
            Fix(
                text="Between host and step, let a dataset that prefetches do what the queue does.",
                code="dataset.prefetch(tf.data.AUTOTUNE)",
            ),
        ),
    ),
    Habit(
        sub_reason="python_metric",
        files=("keras/src/metrics/py_metric.py", "tf_keras/src/metrics/py_metric.py"),
        versions="Keras 2.13 and 2.15, tf_keras 2.18",
        title="A metric that is written in Python computes {ops} on the CPU",
        does="calls a `PyMetric` back in Python",
        harm="harmful",
        because="each step waits for Python, which one thread at a time can run.",
        fixes=(
            Fix(text="Write the metric with TensorFlow's ops, as a subclass of Metric."),
            Fix(text="Or compute it once for each epoch, outside of the step."),
        ),
    ),
    Habit(
        sub_reason="optimizer_slot",
        files=(
            "keras/src/backend/tensorflow/optimizer.py",
            "keras/optimizers/optimizer.py",
            "keras/src/optimizers/optimizer.py",
            "tf_keras/src/optimizers/optimizer.py",
        ),
        versions=f"Keras 3.0, 3.8 and 3.15; {_KERAS_2}",
        title="The optimizer keeps its variables beside the model's, on the CPU: {ops}",
        does="makes the variables of an optimizer beside those of the model",
        harm="harmful",
        because="the variable of the model is on the CPU, and so are its updates.",
        fixes=(
            Fix(text="Move the variable of the model to the GPU: those of the optimizer follow."),
        ),
    ),
    Habit(
        sub_reason="product_gradient",
        files=("tensorflow/python/ops/math_grad.py",),
        versions=_ALL,
        title="The gradient of `tf.reduce_prod` finds its indices on the CPU, by {ops}",
        does="computes the indices that the gradient of `tf.reduce_prod` needs",
        harm="harmless",
        because="these are a few integers, one for each dimension.",
    ),
    Habit(
        sub_reason="boolean_constant",
        files=("tensorflow/python/framework/constant_op.py",),
        versions=_ALL,
        title="A constant of booleans is filled on the CPU, by {ops}",
        does="fills a constant of booleans",
        harm="harmless",
        because="it is done once for each constant, and copied to the GPU.",
        fixes=(Fix(text="Make large constants once, outside the step, and keep them."),),
    ),
    Habit(
        sub_reason="vectorized_map",
        files=("tensorflow/python/ops/parallel_for/pfor.py",),
        versions=_ALL,
        title="`tf.vectorized_map` tiles handles on the CPU, by {ops}",
        does="tiles variants, such as lists of tensors, for `tf.vectorized_map`",
        harm="harmless",
        because="only handles are copied, not what they stand for.",
    ),
    Habit(
        sub_reason="rnn_runtime",
        files=(
            "keras/layers/rnn/gru_lstm_utils.py",
            "keras/src/layers/rnn/gru_lstm_utils.py",
            "tf_keras/src/layers/rnn/gru_lstm_utils.py",
            "tensorflow/python/keras/layers/recurrent_v2.py",
        ),
        versions=f"{_KERAS_2}; TensorFlow 2.12",
        title="A recurrent layer notes on the CPU how it runs, with {ops}",
        does="notes which implementation of a recurrent layer runs",
        harm="harmless",
        because="it is one constant.",
    ),
)
_OTHER: Final = Habit(
    sub_reason="other",
    files=(),
    versions="",
    title="Code of {library} asks for the CPU for {ops}",
    does="runs code on the host",
    harm="harmful",
    because="nothing is known of why it does so.",
    fixes=(Fix(text="See whether the library has an option for the device, or a newer version."),),
)


def _not_applicable(run: Run) -> str | None:
    if run.gpu_used:
        return None
    return "TensorFlow used no GPU: see what would be on the CPU with one"


def _check(run: Run) -> Iterator[Finding]:
    """Walk what a trace alone shows of eager summaries."""
    for host in run.hosts:
        ops = host.tables.ops
        found = ops[(ops["placement_source"] == "summary") & (ops["placement"] == "cpu")]
        if found.empty:
            continue
        habit = next(habit for habit in HABITS if habit.sub_reason == _SUMMARY_HABIT)
        types = listed(sorted({str(t) for t in found["type"]}))
        yield Finding(
            cause=CAUSE.id,
            sub_reason=habit.sub_reason,
            scope=f"{host.name} eager summary",
            certainty="possible",
            harm=habit.harm,
            title=habit.title.format(ops=types),
            why=(
                f"TensorFlow asks for the CPU where it {habit.does}: it copies the value there "
                f"first, by an `Identity`. {_capital(habit.because)}"
            ),
            op_ids=tuple(found["op_id"]),
            evidence=(
                Evidence(
                    kind="op_type",
                    text=f"each {types} recorded is followed at once by a WriteSummary",
                ),
            ),
            fixes=habit.fixes,
        )


def _match(_: CpuOp, blocker: Blocker) -> CauseMatch | None:
    frame = blocker.scope_frame
    if blocker.kind is not BlockerKind.REQUEST or blocker.link != "own" or blocker.copied_from:
        return None
    if frame is None or frame.is_user or is_of_strategy(blocker):
        return None
    habit = _habit(blocker)
    device = device_text(blocker.scope or blocker.requested_device)
    text = f'{library_of(frame)} enters tf.device("{device}") here: it {habit.does}'
    leads = habit.sub_reason == _SUMMARY_HABIT
    return CauseMatch(
        scope=f"{library_of(frame)} {habit.sub_reason}{'' if leads else f' {same_place(frame)}'}",
        evidence=(line_evidence("requested_device", text, frame),),
        # It asks for the device of another variable, which on another machine is another one.
        certainty="likely" if habit.sub_reason == "optimizer_slot" else "certain",
        sub_reason=habit.sub_reason,
        leads=leads,
    )


def _describe(members: Sequence[tuple[CpuOp, Blocker]]) -> FindingText:
    habit = _habit(members[0][1])
    frames = [blocker.scope_frame for _, blocker in members]
    known = [frame for frame in frames if frame is not None]
    library = library_of(known[0]) if known else "A library"
    since = f" So it is in {habit.versions}." if habit.versions else ""
    return FindingText(
        title=_capital(
            habit.title.format(library=library, part=_part(known), ops=ops_text(members))
        ),
        why=(
            f"{library} asks for the CPU in a scope of its own ({lines_text(frames)}, in "
            f"{_functions(known)}), where it {habit.does}; TensorFlow obeys. "
            f"{_capital(habit.because)}{since}"
        ),
        harm=habit.harm,
        fixes=habit.fixes,
    )


def _part(frames: Sequence[Frame]) -> str:
    """Return the layers that the files hold."""
    names = [PurePosixPath(f.file.replace("\\", "/")).name for f in frames]
    return " or ".join(dict.fromkeys(_LAYERS.get(name, name.removesuffix(".py")) for name in names))


def _functions(frames: Sequence[Frame]) -> str:
    return listed([f"`{code}`" for code in dict.fromkeys(frame.code for frame in frames)])


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _habit(blocker: Blocker) -> Habit:
    file = "" if blocker.scope_frame is None else blocker.scope_frame.file.replace("\\", "/")
    found = (habit for habit in HABITS if any(_is_in(file, known) for known in habit.files))
    return next(found, _OTHER)


def _is_in(file: str, known: str) -> bool:
    return f"/{known}" in f"/{file}" if known.endswith("/") else f"/{file}".endswith(f"/{known}")


CAUSE = Cause(
    id="library_cpu_placement",
    title="A library asks for the CPU",
    documentation=__doc__,
    not_applicable=_not_applicable,
    check=_check,
    match=_match,
    describe=_describe,
)

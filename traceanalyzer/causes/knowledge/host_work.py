"""Ops whose work belongs on the host: with files, strings, tables, datasets, queues."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from traceanalyzer.evidence.kernel_types import definition_of
from traceanalyzer.model import Fix

__all__ = ["DATASETS", "LESS_SUMMARIES", "QUEUES", "HostKind", "host_kind"]


class HostKind(NamedTuple):
    """Ops whose work belongs on the host.

    Attributes:
        types: Which.
        because: What they work on.
        fix: What to do.
        in_libraries: Whether a program can do that where a library makes the op.
    """

    types: re.Pattern[str]
    because: str
    fix: Fix
    in_libraries: bool = False


# `record_if` of python/ops/summary_ops_v2.py; Keras' TensorBoard callback has `update_freq`.
LESS_SUMMARIES: Final = Fix(
    text="Write summaries every so many steps; compute what they show before the call.",
    code="with tf.summary.record_if(step % 100 == 0): ...",
)
DATASETS: Final = HostKind(
    re.compile(r"\w*Dataset\w*|\w*Iterator\w*|(Wrap|Unwrap)DatasetVariant"),
    "It works on a dataset or its iterator, which TensorFlow keeps on the host; what it gives is "
    "small.",
    Fix(text="Nothing, where it runs once. In a loop, make datasets and iterators before it."),
)
QUEUES: Final = HostKind(
    re.compile(r"\w*Queue\w*|Barrier\w*|\w*Reader\w*"),
    "It works on a queue or a reader of files, which live on the host.",
    # The docstrings of `tf.train.batch` and similar functions (python/training/input.py) say so.
    Fix(
        text=(
            "Where queues feed the program, as those of `tf.train.batch` and "
            "`string_input_producer` do, read and batch by `tf.data` instead, which prefetches."
        ),
        code=(
            "dataset = tf.data.TextLineDataset(files).map(parse).batch(size)"
            ".prefetch(tf.data.AUTOTUNE)"
        ),
    ),
    in_libraries=True,
)
# The first match wins. Ops on strings that match none are found by their op definition.
_ON_HOST: Final = (
    HostKind(
        re.compile(r"(Create|Close|Flush)?Summary\w*Writer"),
        "It opens, flushes or closes a file of summaries for TensorBoard.",
        Fix(
            text=(
                "Nothing, where it runs once. In a step, leave it out: open writers before it, and "
                "flush them now and then."
            )
        ),
        in_libraries=True,
    ),
    HostKind(
        re.compile(r"Write\w*Summary|ImportEvent"),
        "It writes a summary for TensorBoard, to a file or for one.",
        LESS_SUMMARIES,
        in_libraries=True,
    ),
    HostKind(  # of TensorFlow 1 (python/summary/summary.py), which `record_if` does not reach
        re.compile(r"\w*Summary(V2)?"),
        "It makes a summary for TensorBoard, which the program writes to a file.",
        Fix(
            text="Run the op of the summaries every so many steps rather than in each.",
            code="if step % 100 == 0:\n    writer.add_summary(session.run(merged), step)",
        ),
        in_libraries=True,
    ),
    HostKind(
        re.compile(
            r"(Distributed)?Save(V2|Slices)?|Restore(V2|Slice)?|MergeV2Checkpoints|ShardedFile\w+"
            r"|LoadAndRemapMatrix|GenerateVocabRemapping"
        ),
        "It reads or writes a checkpoint, which is a file.",
        Fix(text="Save less often if it shows in the time of a step."),
        in_libraries=True,
    ),
    HostKind(
        re.compile(r"Print(V2)?|StringFormat|Timestamp"),
        "It makes or prints a text, or reads the host's clock.",
        Fix(text="Leave it out of steps that count: what it prints must be copied from the GPU."),
    ),
    HostKind(
        re.compile(r"(Initialize|Lookup)Table\w*|\w*HashTable\w*"),
        "It works on a hash table, which TensorFlow keeps in host memory.",
        Fix(
            text=(
                "Look keys up in the input pipeline, so that the step gets ids. Where keys are "
                "small integers, gather from a dense tensor instead."
            ),
            code="dataset = dataset.map(lambda key, y: (table.lookup(key), y))",
        ),
    ),
    DATASETS,
    QUEUES,
    HostKind(
        re.compile(r"\w*Accumulator\w*"),
        "It works on an accumulator of gradients, which lives on the host.",
        Fix(
            text="Add gradients up in variables instead, which can be on the GPU.",
            code="total.assign_add(gradient)",
        ),
    ),
    HostKind(
        re.compile(r"Rpc(Client|Server|ServerRegister|Call|CheckStatus)"),
        "It talks to another process.",
        Fix(text="Leave it out of steps that count: they wait for the other process."),
    ),
    HostKind(
        re.compile(r"Encode(\w*(Jpeg|Png|Wav|Proto)\w*)|SerializeTensor|WriteFile|\w*ToTFRecord"),
        "It makes what is written to a file, or writes it.",
        Fix(text="Do it after the step, and not in each: what it takes is copied from the GPU."),
    ),
    HostKind(
        re.compile(r"Decode(\w*(Jpeg|Png|Gif|Bmp|Image|WebP|Jxl|Wav))|ExtractJpegShape"),
        "It decodes the content of a file.",
        Fix(
            text="Decode in the input pipeline, several files at a time.",
            code="dataset = dataset.map(decode, num_parallel_calls=tf.data.AUTOTUNE)",
        ),
    ),
)
_STRINGS: Final = HostKind(
    re.compile(""),
    "It works on strings, which TensorFlow keeps in host memory on every machine.",
    Fix(
        text=(
            "Work on strings in the input pipeline, ahead of the model, so that the step gets "
            "numbers."
        ),
        code="dataset = dataset.map(prepare, num_parallel_calls=tf.data.AUTOTUNE)",
    ),
)


def host_kind(op: str) -> HostKind | None:
    """Return why an op's work belongs on the host, or None where it does not."""
    found = next((kind for kind in _ON_HOST if kind.types.fullmatch(op)), None)
    if found is not None:
        return found
    definition = definition_of(op)
    arguments = () if definition is None else (*definition.inputs, *definition.outputs)
    return _STRINGS if any(a.type == "string" for a in arguments) else None

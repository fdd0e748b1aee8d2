"""A library requests the CPU.

## What it detects

Ops inside a `tf.device` scope for the CPU that TensorFlow, Keras, or another installed package
opens, not the program.

## Why it happens

Some library code is written to run on the host. According to the source code:

- TensorFlow 2.12, 2.18, and 2.21 open such scopes to write summaries, to save and restore
  checkpoints, to load saved models (file names and other strings), for queues, for the global step
  of TensorFlow 1 in eager mode, to feed devices from a dataset (`prefetch_to_device`,
  `MultiDeviceIterator`), for the indices in the gradient of `tf.reduce_prod`, to fill Boolean
  constants, and to tile variants in `tf.vectorized_map`. A graph that is imported
  (`import_graph_def`) or copied (`wrap_function`) keeps the devices it was built with. Scopes for
  the keys of collective ops belong to `distribution_strategy_cpu`.
- Keras 3 opens them since 3.14 in `TextVectorization`, `StringLookup`, `IntegerLookup`, `Hashing`,
  and `HashedCrossing` (not in 3.0, 3.8, 3.10, 3.12, and 3.13, nor in Keras 2), and in 3.15 for
  elements of Grain pipelines. It creates an optimizer's variables on the device of the model's
  variable, which can be the CPU (3.0, 3.8, and 3.15).
- Keras 2 (2.12, 2.13, 2.15, and tf_keras 2.18) opens them where GRU and LSTM record how they run,
  in the summary of a model, and since 2.13 for `PyMetric`.
- Embedding layers open none in these versions. In TensorFlow 2.2 to 2.5 they put their table on the
  CPU if there was a GPU (2.2.3, 2.4.4, and 2.5.3). Keras 2.6 dropped that.

Whatever the program passes to such code, such as the function of a summary, runs in the scope too.

## How to fix it

Preprocessing layers: move them to the input pipeline, `dataset.map(layer)`. Summaries and
checkpoints: write them less often, or asynchronously, and compute their values outside the scope.
Metrics in Python: write them with TensorFlow ops. The others are small and can stay.

## How sure it is

Certain: the capture recorded the line that opened the scope. Likely for the variables of an
optimizer, because their scope follows the model's variable. Without a capture: possible for the
eager `Identity` that copies a value just before its summary is written; for graph ops, the names of
such code make it one of the possible causes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.frames import file_name, library_of, lines_text, same_place
from traceanalyzer.causes._cause import Cause, CauseMatch, FindingText
from traceanalyzer.causes.knowledge.finding_text import (
    capitalized,
    is_of_strategy,
    name_scope,
    observed,
)
from traceanalyzer.causes.knowledge.library_code import library_code, library_code_named
from traceanalyzer.findings import Finding
from traceanalyzer.format import listed
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import device_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.capture_file.document import Frame
    from traceanalyzer.causes.knowledge.blocked_ops import BlockedOps
    from traceanalyzer.cpu_ops import CpuOp
    from traceanalyzer.placement.blocker import Blocker
    from traceanalyzer.run import Run

_MOST_NAMES: Final = 3  # layers named in a title


def not_applicable(run: Run) -> str | None:
    return None if run.gpu_used else "TensorFlow used no GPU: see the prediction for one"


def check(run: Run) -> Iterator[Finding]:
    """Walk the eager summaries that a trace alone shows."""
    for host in run.hosts:
        ops = host.tables.ops
        found = ops[(ops["placement_source"] == "summary") & (ops["placement"] == "cpu")]
        if found.empty:
            continue
        code = library_code_named("summary")
        types = listed(sorted({str(t) for t in found["type"]}))
        text = f"each {types} recorded is immediately followed by a WriteSummary"
        yield Finding(
            cause=CAUSE.id,
            sub_reason=code.id,
            scope=f"{host.name} eager summary",
            certainty="possible",
            harm=code.harm,
            title=code.title.format(ops=types),
            why=(
                f"TensorFlow requests the CPU where it {code.does}: an `Identity` first copies the "
                f"value there. {code.why}"
            ),
            op_ids=tuple(found["op_id"]),
            evidence=(observed("op_type", text),),
            fixes=code.fixes,
        )


def match(_: CpuOp, blocker: Blocker) -> CauseMatch | None:
    frame = blocker.scope_frame
    if blocker.kind is not BlockerKind.REQUEST or blocker.link != "own" or blocker.copied_from:
        return None
    if frame is None or frame.is_user or is_of_strategy(blocker):
        return None
    code, library = library_code(frame), library_of(frame)
    device = device_text(blocker.scope or blocker.requested_device)
    text = f'{library} enters tf.device("{device}") here: it {code.does}'
    leads = code.id == "summary"
    return CauseMatch(
        scope=f"{library} {code.id}{'' if leads else f' {same_place(frame)}'}",
        evidence=(observed("requested_device", text, line=frame),),
        # It requests the device of another variable, which is another one on another machine.
        certainty="likely" if code.id == "optimizer_slot" else "certain",
        sub_reason=code.id,
        leads=leads,
    )


def describe(ops: BlockedOps) -> FindingText:
    frames = [frame for each in ops.blockers if (frame := each.scope_frame) is not None]
    code, library = library_code(frames[0]), library_of(frames[0])
    part = " or ".join(dict.fromkeys(map(_layer, frames)))
    functions = listed([f"`{name}`" for name in dict.fromkeys(frame.code for frame in frames)])
    known = f" Found in the source code of {code.source}." if code.files else ""
    title = code.title.format(library=library, part=part + _named(ops), ops=ops.text)
    return FindingText(
        title=capitalized(title),
        why=(
            f"{library} requests the CPU in its own scope ({lines_text(frames)}, in {functions}): "
            f"it {code.does}. TensorFlow honors the request. {code.why}{known}"
        ),
        harm=code.harm,
        fixes=code.fixes,
    )


def _layer(frame: Frame) -> str:
    """Return the class that a file of Keras is named after."""
    return "".join(map(str.capitalize, file_name(frame).removesuffix(".py").split("_")))


def _named(ops: BlockedOps) -> str:
    """Return the names that the model gives the layers; one layer may be part of another."""
    scopes = (name_scope(cpu_op.name) for cpu_op in ops.ops)
    names = list(dict.fromkeys(scope.rpartition("/")[2] for scope in scopes if scope))
    return f" ({listed(names)})" if 0 < len(names) <= _MOST_NAMES else ""


CAUSE = Cause(
    __name__,
    __doc__,
    not_applicable=not_applicable,
    check=check,
    match=match,
    describe=describe,
)

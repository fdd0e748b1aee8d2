"""How lines, libraries and devices stand in a finding, and what holds an op, in words."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import takewhile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from traceanalyzer.model import Evidence, SourceWhere
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.dataset_calls import is_of_dataset
from traceanalyzer.placement.devices import CPU, type_in_scope
from traceanalyzer.tables.functions import TF_DATA
from traceanalyzer.wording import counted, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from traceanalyzer.capture_file.document import Frame
    from traceanalyzer.evidence.analysis import CpuOp
    from traceanalyzer.evidence.recorded_blockers import RecordedBlocker
    from traceanalyzer.model import Fix, Where

__all__ = [
    "asks_for_cpu",
    "at_lines",
    "blocker_text",
    "borne_out",
    "device_text",
    "function_text",
    "is_alone",
    "is_of_call",
    "is_of_strategy",
    "library_made",
    "library_of",
    "line_evidence",
    "line_text",
    "lines_text",
    "made_at",
    "name_scope",
    "ops_text",
    "runs_for_dataset",
    "same_place",
]

_THIS_PROCESS: Final = "/job:localhost/replica:0/task:0"
_COUNTED: Final = re.compile(r"__(?:inference|forward|backward)_(.+)_\d+")
_CALLS: Final = frozenset({"StatefulPartitionedCall", "PartitionedCall", "gradient_tape"})
_FLOW: Final = frozenset({"while", "cond", "body", "case"})
_LAYER: Final = re.compile(r"[a-z][a-z0-9_]*")
_PACKAGES: Final = ("/site-packages/", "/dist-packages/")
_STRATEGIES: Final = ("tensorflow/python/distribute/", "keras/distribute/")
_MADE_BY_STRATEGY: Final = frozenset(
    {BlockerKind.REQUEST, BlockerKind.RESOURCE, BlockerKind.ASSIGNED}
)
_NAMES: Final = {"keras": "Keras", "tensorflow": "TensorFlow", "tf_keras": "Keras"}


def line_text(frame: Frame) -> str:
    """Return a line of code in a few characters: `train.py:7`."""
    return f"{PurePosixPath(_shown(frame)).name}:{frame.line}"


def lines_text(frames: Sequence[Frame | None]) -> str:
    """Return distinct lines in their order in the file, "" where none is known."""
    known = sorted({(f.file, f.line, line_text(f)) for f in frames if f is not None})
    return listed(list(dict.fromkeys(text for _, _, text in known)))


def at_lines(cpu_ops: Iterable[CpuOp]) -> str:
    """Return the lines that ask for some ops, for the end of a title; "" where none is known.

    The name of the file stands for its path: the evidence has that.
    """
    cpu_ops = list(cpu_ops)
    known = [(s.file, s.line) for s in cpu_ops if s.file is not None and s.line is not None]
    found = list(dict.fromkeys(known))
    if not found:
        return ""
    file, line = found[0]
    more = f" and {counted(len(found) - 1, 'more line')}" if len(found) > 1 else ""
    name = file.replace("\\", "/").rpartition("/")[2]
    return f" at {name}:{line}{more}{_in_library(cpu_ops)}"


def _in_library(cpu_ops: Sequence[CpuOp]) -> str:
    """Return where libraries make ops, if they make all of these; for the end of a title."""
    lines = [cpu_op.explanation.library for cpu_op in cpu_ops]
    known = [line for line in lines if line is not None]
    if len(known) < len(lines):
        return ""
    scopes = list(dict.fromkeys(filter(None, (name_scope(s.name) for s in cpu_ops))))
    within = f" in {scopes[0]}" if len(scopes) == 1 else ""
    return f", within {library_of(known[0])} ({lines_text(known)}{within})"


def made_at(cpu_op: CpuOp) -> tuple[Evidence, ...]:
    """Return the line that asks for an op as evidence, and the library's line that makes it.

    Returns:
        Nothing where the line is not known.
    """
    if cpu_op.file is None or cpu_op.line is None:
        return ()
    library = cpu_op.explanation.library
    where = SourceWhere(file=cpu_op.file, line=cpu_op.line)
    if library is None:
        text = f"this line makes {cpu_op.explanation.type}"
        return (Evidence(kind="source_line", text=text, where=where),)
    name, scope = library_of(library), name_scope(cpu_op.name)
    within = f" in the name scope {scope}" if scope else ""
    calls = f"this line calls {name}, which makes {cpu_op.explanation.type}"
    makes = f"{name} makes {cpu_op.explanation.type} here, in `{library.code}`{within}"
    return (
        Evidence(kind="source_line", text=calls, where=where),
        line_evidence("library_line", makes, library),
    )


def name_scope(node: str) -> str:
    """Return the name scope of a node that a program or its layers opened; "" for none.

    Names of layers and models are lower case, with digits and underscores.
    """
    parts = [part for part in node.split("/")[:-1] if part not in _CALLS]
    named = takewhile(lambda part: _LAYER.fullmatch(part) and part not in _FLOW, parts)
    return "/".join(named)


def library_made(members: Iterable[tuple[CpuOp, RecordedBlocker]]) -> Frame | None:
    """Return a library's line that made ops, if libraries made all of them."""
    lines = [cpu_op.explanation.library for cpu_op, _ in members]
    return None if None in lines or not lines else lines[0]


def same_place(frame: Frame | None) -> str:
    """Return what of a line stays when the program is edited: its file's name and its function."""
    return "" if frame is None else f"{PurePosixPath(_shown(frame)).name} {frame.code}"


def line_evidence(
    kind: str, text: str, frame: Frame | None, where: Where | None = None
) -> Evidence:
    """Return what a line shows; where the line is not known, what else shows it.

    Args:
        kind: What kind of fact it is.
        text: The fact.
        frame: The line.
        where: Where it stands otherwise.
    """
    if frame is not None:
        where = SourceWhere(file=_shown(frame), line=frame.line)
    return Evidence(kind=kind, text=text, where=where)


def library_of(frame: Frame) -> str:
    """Return the library that a line is of: `Keras`, or the name of the package."""
    package = _shown(frame).lstrip("/").partition("/")[0].removesuffix(".py")
    return _NAMES.get(package, package)


def device_text(device: str) -> str:
    """Return a device as a program would ask for it, in this process without naming that."""
    return device.removeprefix(_THIS_PROCESS)


def asks_for_cpu(device: str) -> bool:
    """Return whether a request names the CPU, in full or as Python takes it too: `cpu:0`, `CPU`."""
    return type_in_scope(device) == CPU


def is_of_strategy(blocker: RecordedBlocker) -> bool:
    """Return whether a strategy of `tf.distribute` asks for what holds an op.

    The scope's line tells. The scope of an eager op says nothing of the resource that it uses.
    """
    if blocker.kind not in _MADE_BY_STRATEGY or blocker.scope_frame is None:
        return False
    if blocker.kind is not BlockerKind.REQUEST and blocker.scope is None:
        return False
    return any(_is_below(blocker.scope_frame, folder) for folder in _STRATEGIES)


def function_text(cpu_op: CpuOp, blocker: RecordedBlocker) -> str:
    """Return the function that was called, as the program calls it."""
    called = blocker.called_in if blocker.call is None else blocker.call.op
    if not called:
        return cpu_op.function or "the function"
    match = _COUNTED.fullmatch(called)
    return match[1] if match else called


def is_of_call(blocker: RecordedBlocker) -> bool:
    """Return whether a request is that of the program's own scope around a function's call."""
    frame = blocker.scope_frame
    return bool(blocker.called_in) and frame is not None and frame.is_user


def runs_for_dataset(cpu_op: CpuOp, blocker: RecordedBlocker) -> bool:
    """Return whether a default device is that of a function which tf.data calls for a pipeline."""
    if blocker.call is not None or blocker.for_step:
        return False
    return cpu_op.function == TF_DATA or is_of_dataset(blocker.function)


def is_alone(members: Sequence[tuple[CpuOp, RecordedBlocker]]) -> bool:
    """Return whether a replay proves that, without what holds them, these ops move to a GPU."""
    return all(
        s.explanation.blockers == (blocker,) and s.explanation.certainty == "certain"
        for s, blocker in members
    )


def borne_out(
    fixes: Iterable[Fix], members: Sequence[tuple[CpuOp, RecordedBlocker]]
) -> tuple[Fix, ...]:
    """Return fixes as checked only where nothing else holds the ops: else they move none alone.

    A replay must put the ops on a GPU without what holds them.
    """
    is_enough = all(
        len(cpu_op.explanation.blockers) <= 1
        and (cpu_op.explanation.is_complete or cpu_op.explanation.basis != "replay")
        for cpu_op, _ in members
    )
    return tuple(replace(fix, checked=fix.checked and is_enough) for fix in fixes)


def ops_text(members: Sequence[tuple[CpuOp, RecordedBlocker]]) -> str:
    """Return which ops these are: one with its line, of more their types."""
    cpu_ops = [cpu_op for cpu_op, _ in members]
    types = list(dict.fromkeys(cpu_op.explanation.type for cpu_op in cpu_ops))
    places = {(cpu_op.file, cpu_op.line) for cpu_op in cpu_ops}
    file, line = places.pop() if len(places) == 1 else (None, None)
    at = f" at {PurePosixPath(file).name}:{line}" if file and line is not None else ""
    return f"{listed(types)}{at}"


def blocker_text(blocker: RecordedBlocker) -> str:
    """Return what holds a node, as a clause: `StringJoin has no GPU kernel`."""
    return f"{_OF_HOLD[blocker.kind](blocker)}{_made_at(blocker)}"


def _shown(frame: Frame) -> str:
    """Return a file's path; of a library, from its package on."""
    path = frame.file.replace("\\", "/")
    for folder in _PACKAGES:
        if not frame.is_user and folder in path:
            return path.rpartition(folder)[2]
    return path


def _is_below(frame: Frame, folder: str) -> bool:
    return not frame.is_user and f"/{folder}" in f"/{_shown(frame)}"


def _made_at(blocker: RecordedBlocker) -> str:
    return "" if blocker.frame is None else f" ({line_text(blocker.frame)})"


def _attributes(blocker: RecordedBlocker) -> str:
    values = (f"{k}={v}" if isinstance(v, str) else k for k, v in blocker.attributes.items())
    return f"no GPU kernel of {blocker.type} takes {listed(list(values)) or 'its attributes'}"


def _resource(blocker: RecordedBlocker) -> str:
    where = device_text(blocker.requested_device or "") or "the CPU"
    if blocker.resource is not None and blocker.resource.name:
        return f"the resource {blocker.resource.name} lives on {where}"
    return f"a resource that {blocker.type} has lives on {where}"


def _request(blocker: RecordedBlocker) -> str:
    by = "" if blocker.scope_frame is None else f" at {line_text(blocker.scope_frame)}"
    return f"{device_text(blocker.requested_device)} is asked for {blocker.type}{by}"


_OF_HOLD: Final[Mapping[BlockerKind, Callable[[RecordedBlocker], str]]] = {
    BlockerKind.NO_KERNEL: lambda blocker: f"{blocker.type} has no GPU kernel",
    BlockerKind.ATTRIBUTES: _attributes,
    BlockerKind.HOST_LIST: lambda blocker: (
        f"{blocker.type} takes a list that is always in host memory"
    ),
    BlockerKind.ASSIGNED: _resource,
    BlockerKind.RESOURCE: _resource,
    BlockerKind.REQUEST: _request,
    BlockerKind.DEFAULT_DEVICE: lambda blocker: (
        f"the function was called on {device_text(blocker.requested_device)}"
    ),
    BlockerKind.PRIORITY: lambda blocker: f"TensorFlow prefers the CPU kernel of {blocker.type}",
    BlockerKind.SMALL_INPUTS: lambda blocker: f"{blocker.type} has few integers to work on",
    BlockerKind.OPTIMIZER: lambda blocker: (
        f"an optimizer of the graph moves {blocker.type} to the host"
    ),
    BlockerKind.HOST_MEMORY: lambda blocker: (
        f"the GPU kernel of {blocker.type} has its data in host memory"
    ),
}

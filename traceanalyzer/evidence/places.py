"""How lines, libraries and devices stand in a finding, and what holds an op, in words."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import takewhile
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from traceanalyzer.model import Evidence, SourceWhere
from traceanalyzer.placement.blockers import Hold
from traceanalyzer.placement.dataset_calls import is_of_dataset
from traceanalyzer.placement.devices import CPU, type_in_scope
from traceanalyzer.tables.host_ops import TF_DATA
from traceanalyzer.wording import counted, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from traceanalyzer.evidence.analysis import Subject
    from traceanalyzer.evidence.held import Held
    from traceanalyzer.model import Fix, Where
    from traceanalyzer.sidecar.document import Frame

__all__ = [
    "asks_for_cpu",
    "at_lines",
    "borne_out",
    "device_text",
    "function_text",
    "hold_text",
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
_MADE_BY_STRATEGY: Final = frozenset({Hold.REQUEST, Hold.RESOURCE, Hold.ASSIGNED})
_NAMES: Final = {"keras": "Keras", "tensorflow": "TensorFlow", "tf_keras": "Keras"}


def line_text(frame: Frame) -> str:
    """Return a line of code in a few characters: `train.py:7`."""
    return f"{PurePosixPath(_shown(frame)).name}:{frame.line}"


def lines_text(frames: Sequence[Frame | None]) -> str:
    """Return distinct lines in their order in the file, "" where none is known."""
    known = sorted({(f.file, f.line, line_text(f)) for f in frames if f is not None})
    return listed(list(dict.fromkeys(text for _, _, text in known)))


def at_lines(subjects: Iterable[Subject]) -> str:
    """Return the lines that ask for some ops, for the end of a title; "" where none is known.

    The name of the file stands for its path: the evidence has that.
    """
    subjects = list(subjects)
    known = [(s.file, s.line) for s in subjects if s.file is not None and s.line is not None]
    found = list(dict.fromkeys(known))
    if not found:
        return ""
    file, line = found[0]
    more = f" and {counted(len(found) - 1, 'more line')}" if len(found) > 1 else ""
    name = file.replace("\\", "/").rpartition("/")[2]
    return f" at {name}:{line}{more}{_in_library(subjects)}"


def _in_library(subjects: Sequence[Subject]) -> str:
    """Return where libraries make ops, if they make all of these; for the end of a title."""
    lines = [subject.case.library for subject in subjects]
    known = [line for line in lines if line is not None]
    if len(known) < len(lines):
        return ""
    scopes = list(dict.fromkeys(filter(None, (name_scope(s.name) for s in subjects))))
    within = f" in {scopes[0]}" if len(scopes) == 1 else ""
    return f", within {library_of(known[0])} ({lines_text(known)}{within})"


def made_at(subject: Subject) -> tuple[Evidence, ...]:
    """Return the line that asks for an op as evidence, and the library's line that makes it.

    Returns:
        Nothing where the line is not known.
    """
    if subject.file is None or subject.line is None:
        return ()
    library = subject.case.library
    where = SourceWhere(file=subject.file, line=subject.line)
    if library is None:
        text = f"this line makes {subject.case.type}"
        return (Evidence(kind="source_line", text=text, where=where),)
    name, scope = library_of(library), name_scope(subject.name)
    within = f" in the name scope {scope}" if scope else ""
    calls = f"this line calls {name}, which makes {subject.case.type}"
    makes = f"{name} makes {subject.case.type} here, in `{library.code}`{within}"
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


def library_made(members: Iterable[tuple[Subject, Held]]) -> Frame | None:
    """Return a library's line that made ops, if libraries made all of them."""
    lines = [subject.case.library for subject, _ in members]
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


def is_of_strategy(held: Held) -> bool:
    """Return whether a strategy of `tf.distribute` asks for what holds an op.

    The scope's line tells. The scope of an eager op says nothing of the resource that it uses.
    """
    if held.hold not in _MADE_BY_STRATEGY or held.scope_frame is None:
        return False
    if held.hold is not Hold.REQUEST and held.scope is None:
        return False
    return any(_is_below(held.scope_frame, folder) for folder in _STRATEGIES)


def function_text(subject: Subject, held: Held) -> str:
    """Return the function that was called, as the program calls it."""
    called = held.called_in if held.call is None else held.call.op
    if not called:
        return subject.function or "the function"
    match = _COUNTED.fullmatch(called)
    return match[1] if match else called


def is_of_call(held: Held) -> bool:
    """Return whether a request is that of the program's own scope around a function's call."""
    frame = held.scope_frame
    return bool(held.called_in) and frame is not None and frame.is_user


def runs_for_dataset(subject: Subject, held: Held) -> bool:
    """Return whether a default device is that of a function which tf.data calls for a pipeline."""
    if held.call is not None or held.for_step:
        return False
    return subject.function == TF_DATA or is_of_dataset(held.function)


def is_alone(members: Sequence[tuple[Subject, Held]]) -> bool:
    """Return whether a replay proves that, without what holds them, these ops move to a GPU."""
    return all(s.case.held == (held,) and s.case.certainty == "certain" for s, held in members)


def borne_out(fixes: Iterable[Fix], members: Sequence[tuple[Subject, Held]]) -> tuple[Fix, ...]:
    """Return fixes as checked only where nothing else holds the ops: else they move none alone.

    A replay must put the ops on a GPU without what holds them.
    """
    is_enough = all(
        len(subject.case.held) <= 1 and (subject.case.is_complete or subject.case.basis != "replay")
        for subject, _ in members
    )
    return tuple(replace(fix, checked=fix.checked and is_enough) for fix in fixes)


def ops_text(members: Sequence[tuple[Subject, Held]]) -> str:
    """Return which ops these are: one with its line, of more their types."""
    subjects = [subject for subject, _ in members]
    types = list(dict.fromkeys(subject.case.type for subject in subjects))
    places = {(subject.file, subject.line) for subject in subjects}
    file, line = places.pop() if len(places) == 1 else (None, None)
    at = f" at {PurePosixPath(file).name}:{line}" if file and line is not None else ""
    return f"{listed(types)}{at}"


def hold_text(held: Held) -> str:
    """Return what holds a node, as a clause: `StringJoin has no GPU kernel`."""
    return f"{_OF_HOLD[held.hold](held)}{_made_at(held)}"


def _shown(frame: Frame) -> str:
    """Return a file's path; of a library, from its package on."""
    path = frame.file.replace("\\", "/")
    for folder in _PACKAGES:
        if not frame.is_user and folder in path:
            return path.rpartition(folder)[2]
    return path


def _is_below(frame: Frame, folder: str) -> bool:
    return not frame.is_user and f"/{folder}" in f"/{_shown(frame)}"


def _made_at(held: Held) -> str:
    return "" if held.frame is None else f" ({line_text(held.frame)})"


def _attributes(held: Held) -> str:
    values = (f"{k}={v}" if isinstance(v, str) else k for k, v in held.attributes.items())
    return f"no GPU kernel of {held.type} takes {listed(list(values)) or 'its attributes'}"


def _resource(held: Held) -> str:
    where = device_text(held.asked or "") or "the CPU"
    if held.resource is not None and held.resource.name:
        return f"the resource {held.resource.name} lives on {where}"
    return f"a resource that {held.type} has lives on {where}"


def _request(held: Held) -> str:
    by = "" if held.scope_frame is None else f" at {line_text(held.scope_frame)}"
    return f"{device_text(held.asked)} is asked for {held.type}{by}"


_OF_HOLD: Final[Mapping[Hold, Callable[[Held], str]]] = {
    Hold.NO_KERNEL: lambda held: f"{held.type} has no GPU kernel",
    Hold.ATTRIBUTES: _attributes,
    Hold.HOST_LIST: lambda held: f"{held.type} takes a list that is always in host memory",
    Hold.ASSIGNED: _resource,
    Hold.RESOURCE: _resource,
    Hold.REQUEST: _request,
    Hold.DEFAULT_DEVICE: lambda held: f"the function was called on {device_text(held.asked)}",
    Hold.PRIORITY: lambda held: f"TensorFlow prefers the CPU kernel of {held.type}",
    Hold.SMALL_INPUTS: lambda held: f"{held.type} has few integers to work on",
    Hold.OPTIMIZER: lambda held: f"an optimizer of the graph moves {held.type} to the host",
    Hold.HOST_MEMORY: lambda held: f"the GPU kernel of {held.type} has its data in host memory",
}

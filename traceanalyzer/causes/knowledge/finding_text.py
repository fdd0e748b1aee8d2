"""Phrases that findings share: ops and their lines, devices, and blockers."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from traceanalyzer.capture_file.document import (
    Frame,
    Json,
    is_below,
    library_of,
    line_text,
    lines_text,
    shown_path,
)
from traceanalyzer.cpu_ops import CpuOp
from traceanalyzer.format import counted, listed
from traceanalyzer.model import CaptureFileWhere, Evidence, Fix, SourceWhere, Where
from traceanalyzer.placement.blocker import BY_SCOPE, Blocker, BlockerKind
from traceanalyzer.placement.calls import is_of_dataset
from traceanalyzer.placement.devices import device_text
from traceanalyzer.placement.inference import name_scope
from traceanalyzer.placement.kernel_types import python_name
from traceanalyzer.tables.functions import TF_DATA
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS

COPIED: Final = "Inputs on the GPU are copied to the host, and results are copied back."
FASTER_PIPELINE: Final = Fix.of(
    "Make the input pipeline faster instead of moving it",
    "Use parallel calls, and add a prefetch at the end.",
    condition="the model waits for input",
    code="dataset = dataset.map(f, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)",
)
#: Modifier of a finding whose scope can be around the ops or around the call of their function.
OP_OR_CALL: Final = "scope_of_op_or_call"

_FUNCTION: Final = re.compile(r"__(?:inference|forward|backward)_(.+)_\d+")
_STRATEGIES: Final = ("tensorflow/python/distribute/", "keras/distribute/")
_SCOPE: Final = re.compile(r"[\w.]*\bdevice\((?:[^()]|\([^()]*\))*\)")


def observed(kind: str, text: str, place: str = "", *, line: Frame | None = None) -> Evidence:
    """Return evidence at a line of code or, without one, at a place in the capture file."""
    where: Where | None = CaptureFileWhere(capture_file=place) if place else None
    if line is not None:
        where = SourceWhere(file=shown_path(line), line=line.line)
    return Evidence(kind=kind, text=text, where=where)


def made_at(cpu_op: CpuOp) -> tuple[Evidence, ...]:
    """Return evidence of the line that creates an op, and of the library line that it calls."""
    if cpu_op.file is None or cpu_op.line is None:
        return ()
    op_type, library = cpu_op.explanation.type, cpu_op.explanation.library
    where = SourceWhere(file=cpu_op.file, line=cpu_op.line)
    if library is None:
        return (Evidence(kind="source_line", text=f"this line creates {op_type}", where=where),)
    name, scope = library_of(library), name_scope(cpu_op.name)
    within = f" in the name scope {scope}" if scope else ""
    calls = f"this line calls {name}, which creates {op_type}"
    makes = f"{name} creates {op_type} here, in `{library.code}`{within}"
    return (
        Evidence(kind="source_line", text=calls, where=where),
        observed("library_line", makes, line=library),
    )


def node_where(blocker: Blocker) -> str:
    """Return the place of a blocker's node or eager op in the capture file."""
    if not blocker.name:
        return f"signatures/{blocker.type}"
    return f"functions/{blocker.function}/{blocker.name}"


def types_at(cpu_ops: Sequence[CpuOp]) -> str:
    """Return the types of ops, with the line if one line creates all of them."""
    types = listed(list(dict.fromkeys(op.explanation.type for op in cpu_ops)))
    places = {(op.file, op.line) for op in cpu_ops}
    file, line = places.pop() if len(places) == 1 else (None, None)
    return types if file is None or line is None else f"{types} at {_file_line(file, line)}"


def at_lines(cpu_ops: Sequence[CpuOp]) -> str:
    """Return the end of a title: the lines of ops, and their library if libraries create them."""
    lines = [(op.file, op.line) for op in cpu_ops if op.file is not None and op.line is not None]
    lines = list(dict.fromkeys(lines))
    if not lines:
        return ""
    more = f" and {counted(len(lines) - 1, 'more line')}" if len(lines) > 1 else ""
    at = f" at {_file_line(*lines[0])}{more}"
    known = [op.explanation.library for op in cpu_ops if op.explanation.library is not None]
    if len(known) < len(cpu_ops):
        return at
    scopes = {scope for op in cpu_ops if (scope := name_scope(op.name))}
    within = f" in {scopes.pop()}" if len(scopes) == 1 else ""
    return f"{at}, inside {library_of(known[0])} ({lines_text(known)}{within})"


def _file_line(file: str, line: int) -> str:
    return f"{file.replace(chr(92), '/').rpartition('/')[2]}:{line}"


def capitalized(text: str) -> str:
    """Return a text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def fix_of(entry: Mapping[str, Any], values: Mapping[str, str] | None = None) -> Fix:
    """Return a fix from a TOML file, with its placeholders filled in."""
    filled: dict[str, Any] = {
        key: text.format_map(values) if isinstance(text, str) and values else text
        for key, text in entry.items()
    }
    return Fix(**filled) if "text" in filled else Fix.of(**filled)


def scope_text(blocker: Blocker) -> str:
    """Return the `tf.device` call of a blocker's scope, as written in the program if recorded."""
    frame = blocker.scope_frame
    calls = _SCOPE.findall(frame.text or "") if frame is not None and frame.is_user else ()
    if len(calls) == 1:
        return str(calls[0])
    call = None if blocker.call is None else blocker.call.scope
    return f'tf.device("{device_text(blocker.scope or call or blocker.requested_device)}")'


def is_of_strategy(blocker: Blocker) -> bool:
    """Return whether the scope that requests the device is in code of `tf.distribute`.

    It can be the scope around the call of a function.
    """
    frame = blocker.scope_frame
    if frame is None or blocker.kind not in {*BY_SCOPE, BlockerKind.DEFAULT_DEVICE}:
        return False
    if blocker.kind is not BlockerKind.REQUEST and blocker.scope is None:
        return False
    return any(is_below(frame, folder) for folder in _STRATEGIES)


def is_requested_for_python(blocker: Blocker) -> bool:
    """Return whether TensorFlow requests the CPU because the op calls a Python function."""
    frame = blocker.scope_frame
    is_asked = blocker.kind is BlockerKind.REQUEST and blocker.type in PYTHON_CALLBACKS
    return is_asked and frame is not None and is_below(frame, "tensorflow/python/ops/")


def is_of_call(blocker: Blocker) -> bool:
    """Return whether a scope around a call of the function requests the device.

    A library's scope does not count.
    """
    frame = blocker.scope_frame
    return bool(blocker.called_in) and (frame is None or frame.is_user)


def function_text(cpu_op: CpuOp, blocker: Blocker) -> str:
    """Return the Python name of the called function."""
    called = blocker.called_in if blocker.call is None else blocker.call.op
    if not called:
        return cpu_op.function or "the function"
    match = _FUNCTION.fullmatch(called)
    return match[1] if match else called


def runs_for_dataset(cpu_op: CpuOp, blocker: Blocker) -> bool:
    """Return whether tf.data calls the op's function for an input pipeline."""
    if blocker.call is not None or blocker.for_step or blocker.of_model:
        return False
    return cpu_op.function == TF_DATA or is_of_dataset(blocker.function)


_CLAUSES: Final = {
    BlockerKind.NO_KERNEL: "{} has no GPU kernel",
    BlockerKind.HOST_LIST: "{} uses a list that is always in host memory",
    BlockerKind.PRIORITY: "TensorFlow prefers the CPU kernel of {}",
    BlockerKind.SMALL_INPUTS: "{} has only small integer inputs",
    BlockerKind.HOST_MEMORY: "the GPU kernel of {} keeps its data in host memory",
}


def blocker_text(blocker: Blocker) -> str:
    """Return a blocker as a clause, with the line that created the op, if known."""
    made = "" if blocker.frame is None else f" ({line_text(blocker.frame)})"
    return f"{_clause(blocker)}{made}"


def _clause(blocker: Blocker) -> str:
    op_type, device = blocker.type, device_text(blocker.requested_device)
    match blocker.kind:
        case BlockerKind.ATTRIBUTES:
            given = blocker.attributes.items()
            values = [f"{k}={v}" if isinstance(v, str) else k for k, v in given]
            return f"no GPU kernel of {op_type} accepts {listed(values) or 'its attributes'}"
        case BlockerKind.ASSIGNED | BlockerKind.RESOURCE:
            named = blocker.resource is not None and blocker.resource.name
            resource = f"the resource {named}" if named else f"a resource of {op_type}"
            return f"{resource} is on {device or 'the CPU'}"
        case BlockerKind.REQUEST:
            at = "" if blocker.scope_frame is None else f" at {line_text(blocker.scope_frame)}"
            return f"{device} is requested for {op_type}{at}"
        case BlockerKind.DEFAULT_DEVICE:
            return f"the function was called on {device}"
        case kind:
            return _CLAUSES[kind].format(op_type)


def given_text(attributes: Mapping[str, Json]) -> str:
    """Return attributes with their values: `T=int32, bad_indices_policy="ERROR"`."""
    return ", ".join(f"{name}={value_text(value)}" for name, value in attributes.items())


def value_text(value: Json) -> str:
    """Return the value of an attribute, with dtypes as Python spells them."""
    if isinstance(value, dict):
        return f'"{value["s"]}"' if isinstance(value.get("s"), str) else str(value)
    names = [python_name(dtype) for dtype in dtypes_in(value)]
    if isinstance(value, list) and names:
        return f"[{', '.join(dict.fromkeys(names))}]"
    return names[0] if names else "(not recorded)" if value is None else str(value)


def dtypes_in(value: Json) -> list[str]:
    """Return the dtypes in the value of an attribute; [] if the value was not recorded."""
    values = value if isinstance(value, list) else [value]
    return [v for v in values if isinstance(v, str)]

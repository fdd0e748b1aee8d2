"""Finds the ops that XLA compiled for the CPU, as in JAX programs on a CPU.

XLA writes an event for each op that a program runs on a host thread, with the stats `hlo_op` and
`hlo_module` (xla/backends/cpu/runtime/thunk_executor.cc). On GPUs and TPUs, the kernels have them.
"""

import re
from dataclasses import replace
from typing import Final

import numpy as np

from traceanalyzer.tables.arrays import Flags, innermost, named_like
from traceanalyzer.tables.vocabulary import ClassifiedNames, Kind
from traceanalyzer.trace.columns import Plane, Trace

CPU_DEVICE: Final = "/device:CPU:0"
OP, MODULE = "hlo_op", "hlo_module"
#: Types of ops that call Python: jax.pure_callback and others, by the names of their instructions.
CALLBACKS: Final = re.compile(r".*callback")
_UNIQUE_NUMBER: Final = re.compile(r"(\.\d+)+\Z")  # of an XLA instruction
_METADATA: Final = "/host:metadata"
_JAX_VERSION: Final = "jax_version"
# `PjitFunction(f)` is written by JAX alone (jaxlib/pjit.cc); older versions record no version.
_JAX_EVENT: Final = re.compile(r"PjitFunction\(.*\)")
# Events of Python's tracer: `$FILE.py:LINE FUNCTION`.
_PYTHON: Final = re.compile(r"\$(?P<file>\w+\.py):(?P<line>\d+) .*")
# Files of JAX, NumPy, and Python's library between a callback and the user's function.
_LIBRARIES: Final = re.compile(
    r"(?:_internal|abstract_arrays|api(?:_util)?|array|basearray|batching|callback|config|contextlib"
    r"|core|dispatch|dtypes|ffi|fromnumeric|functools|numeric|partial_eval|pjit|profiler|pxla"
    r"|sharding(?:_impls)?|traceback_util|tree_util|util|xla_bridge)\.py"
)


def with_compiled_ops(plane: Plane, names: ClassifiedNames) -> ClassifiedNames:
    """Return the names with those of compiled ops among them."""
    is_compiled = np.zeros(len(plane.names), np.bool_)
    of_events = plane.strings(OP).present & plane.strings(MODULE).present
    is_compiled[plane.name_of[of_events]] = True
    is_compiled &= names.kind == Kind.OTHER
    if not is_compiled.any():
        return names
    pairs = zip(plane.names, names.op, names.type, is_compiled.tolist(), strict=True)
    named = [(n, _UNIQUE_NUMBER.sub("", n)) if chosen else (op, t) for n, op, t, chosen in pairs]
    return replace(
        names,
        kind=np.where(is_compiled, Kind.COMPILED_OP, names.kind).astype(np.uint8),
        op=tuple(op for op, _ in named),
        type=tuple(op_type for _, op_type in named),
    )


def jax_version(trace: Trace) -> str | None:
    """Return the version of the JAX that wrote a trace, "" if it is unknown, None without JAX."""
    recorded = (p.own.get(_JAX_VERSION) for p in trace.planes if p.name == _METADATA)
    if version := next(filter(None, recorded), None):
        return version
    names = (name for plane in trace.planes for name in plane.names)
    return "" if any(map(_JAX_EVENT.fullmatch, names)) else None


def called_python(plane: Plane, is_callback: Flags, order: np.ndarray) -> tuple[str, int] | None:
    """Return the file and line of the Python function that callbacks spent most time in.

    `is_callback` marks the events of the callbacks. None if Python's tracer was off.
    """
    frames = named_like(plane, _PYTHON.fullmatch)
    frames = frames[innermost(plane, order, is_callback)[frames] >= 0]
    took: dict[tuple[str, int], int] = {}
    for name in np.unique(plane.name_of[frames]).tolist():
        match = _PYTHON.fullmatch(plane.names[name])
        if match and not _LIBRARIES.fullmatch(match["file"]):
            place = match["file"], int(match["line"])
            of_name = plane.name_of[frames] == name
            took[place] = took.get(place, 0) + int(plane.duration_ps[frames[of_name]].sum())
    return max(took, key=lambda place: took[place], default=None)

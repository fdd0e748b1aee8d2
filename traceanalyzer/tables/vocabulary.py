"""Defines the names that TensorFlow writes into a trace, and their meanings.

Comments give the source of a name: `xprof` means openxla/xprof, and other files are TensorFlow's.
"""

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.placement.kernel_tables import op_types
from traceanalyzer.tables.arrays import Flags, mask
from traceanalyzer.trace.columns import Plane

HOST_PLANE: Final = "/host:CPU"
GPU_PLANE: Final = re.compile(r"/device:(GPU|TPU):(\d+)")
_DEVICE: Final = re.compile(r"(.*)/device:([A-Z_]+):(\d+)")

# Bytes per value (types.proto), by TensorFlow's own name of the dtype.
DTYPE_BYTES: Final = {
    **dict.fromkeys(("bool", "int8", "uint8", "qint8", "quint8"), 1),
    **dict.fromkeys(("half", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("float", "int32", "uint32"), 4),
    **dict.fromkeys(("double", "int64", "uint64", "complex64"), 8),
    "complex128": 16,
}

# Host tracer level from which ops placed on a GPU leave host events, too (op_kernel.cc: a kernel on
# a GPU is never `expensive`; executor.cc: only expensive ones are recorded below level 3).
EVERY_OP_LEVEL: Final = 3

# executor.cc: a thread runs nodes of a graph; stats `id` (step) and `_c` (which executor).
EXECUTOR: Final = "ExecutorState::Process"
# function.cc: the call itself, on the calling thread; stat `id` is the step's.
FUNCTION_RUN: Final = "FunctionRun"
# direct_session.cc: a TensorFlow 1 session runs a graph and waits for the graph's executors.
SESSION_RUN: Final = "SessionRun"
# captured_function.cc: a tf.data function's call; stat `id` is the step's.
CAPTURED_FUNCTION: Final = re.compile(
    r"InstantiatedCapturedFunction::Run.*|CapturedFunction::Run.*"
)
# iterator_ops.cc: the op that returns an element, on a tf.data thread.
GET_NEXT: Final = re.compile(r"IteratorGetNext\w*Op::DoCompute")
# eager/execute.cc: an op, or a call of a function, that a program runs eagerly.
EAGER: Final = "EagerLocalExecute: "

# eager/execute.cc: the kernel of an eager op or call runs; before, TensorFlow finds or makes it.
EAGER_RUN: Final = "EagerKernelExecute"
# executor.cc, TensorFlow 2.13 and later: an executor starts an op, whose kernel is asynchronous.
OP_START: Final = "ExecutorState::ProcessAsync::Start"

# The call of a tf.function in Python (polymorphic_function.py, __call__), and the value of the stat
# if TensorFlow traced the function in this call.
CALL_STAT: Final = "tf_function_call"
TRACED: Final = "traced"
# Events in which graphs are built, compiled, and tuned. Names seen in traces of TensorFlow 2.21 and
# JAX, or in the sources named here.
PREPARES: Final = re.compile(
    r"tf\.function-graph_building"  # polymorphic_function/tracing_compilation.py, 2.6 and later
    # xla/service: CpuCompiler::RunBackend, GpuCompiler::RunHloPasses for NAME, and so on;
    # JitCompiler::Compile and FusionCompiler::Compile in xla/backends/cpu/codegen
    r"|(?:\w+::)*\w*Compiler::(?:Compile|RunBackend|RunHloPasses)\w*\b.*"
    # xla/pjrt: PjRtCpuClient::Compile, PjRtStreamExecutorClient::CompileInternal; NanoRtClient
    r"|(?:\w+::)*\w*Client::Compile\w*|PJRT_Client_Compile.*"
    r"|HLO Transforms:.*|HLO passes .*"  # gpu_compiler.cc; cpu_compiler.cc
    r"|LLVM compilation.*|PTX->CUBIN"  # gpu_compiler.cc, nvptx_compiler.cc, up to 2.12
    r"|CompileAll|Autotuner(?:Compile|Execute)|ProfileExecutable"  # xla/backends/autotuner
    r"|TaskDispatcher::dispatch"  # of LLVM's passes, on threads of XLA's compiler
    r"|traceanalyzer:instantiation"  # capturing/recorder/earlier.py
    r"|backend_compile\w*|XLA::TPU.*",  # jax/_src/compiler.py; libtpu
    re.DOTALL,
)
# What XLA compiled runs: CpuExecutable::ExecuteAsyncOnStream, GpuExecutable::ExecuteThunks.
RUNS_COMPILED: Final = re.compile(r"(?:\w+::)*\w*Executable::Execute\w*")

# An op name as graph.proto allows it, or with the underscore of an internal node. A server's events
# for remote eager ops look the same: `EagerService:Enqueue` (eager_service_impl.cc).
_OP: Final = re.compile(r"(?!EagerService:)([A-Za-z0-9._][A-Za-z0-9_./>\-]*):([A-Z_][A-Za-z0-9_]*)")
STAGE: Final = "Iterator::"
_INDEX: Final = re.compile(r"\[\d+\]")
# Stages whose inputs are different datasets, numbered by index. In other stages the index counts
# restarts: epochs of a repeat, files of an interleave.
_SEVERAL_INPUTS: Final = re.compile(r"(?:Zip|Concatenate|DirectedInterleave|ChooseFastest\w*)\[")
_REDUCES: Final = "tf_data_reduce_dataset"  # reduce_dataset_op.cc

# Lines that post-processing adds; their events repeat others. Ids from 0xdeadbeef up, which older
# files store as negative 32-bit numbers (xprof: xplane_schema.h, IsDerivedThreadId).
_DERIVED_IDS: Final = (0xDEADBEEF, 0xDEADBEEF + 64)
_DERIVED_NAMES: Final = re.compile(
    r"Steps|(TensorFlow|Framework) (Name Scope|Ops)|TensorFlow/.*|XLA (Modules|TraceMe)"
    r"|Async XLA Ops|Source [Cc]ode|Launch Stats"
)


class Kind(IntEnum):
    """The kind of an event on a host line."""

    OTHER = 0
    OP = 1  # a graph op, `name:Type` (executor.cc)
    EAGER_OP = 2  # an op run eagerly, `EagerLocalExecute: Type` (eager/execute.cc)
    STAGE = 3  # a stage of a tf.data pipeline, `Iterator::A::B` (dataset.h)
    FUNCTION_CALL = 4  # a function called eagerly, `EagerLocalExecute: __inference_f_12`
    COMPILED_OP = 5  # an op that XLA compiled for the CPU; see `compiled_ops`


class Role:
    """The purpose of an op. Placement matters only for ops that compute."""

    COMPUTE: Final = "compute"
    NO_WORK: Final = "no_work"  # without an event, it hands on a value, or describes one
    INPUT_PIPELINE: Final = "input_pipeline"
    TRANSFER: Final = "transfer"
    RUNTIME: Final = "runtime"


# script_ops.py: tf.numpy_function and tf.py_function.
PYTHON_CALLBACKS: Final = ("EagerPyFunc", "PyFunc", "PyFuncStateless")

_TRANSFERS: Final = op_types("transfers")
_RUNTIME: Final = op_types("runtime")
OPTIONALS: Final = op_types("optionals")
# Also ops for tf.data's elements, seeds and counts (dataset_ops.cc).
_PIPELINE: Final = re.compile(
    r"\w*Iterator\w*|\w*Dataset(V\d+)?|\w*(MemoryCache|SeedGenerator)|DummyIterationCounter"
)


def role_of_type(op_type: str) -> str:
    """Return the role that follows from an op's type alone."""
    if op_type in _TRANSFERS or op_type in _RUNTIME:
        return Role.TRANSFER if op_type in _TRANSFERS else Role.RUNTIME
    is_pipeline = op_type in OPTIONALS or _PIPELINE.fullmatch(op_type)
    return Role.INPUT_PIPELINE if is_pipeline else Role.COMPUTE


def placement_of_device(device: str) -> str:
    """Return the placement for a device string, such as `gpu:0` for `/device:GPU:0`."""
    match = _DEVICE.fullmatch(device)
    if not match:
        return "unknown"
    kind, number = match[2], match[3]
    if kind == "CPU":
        return "cpu"
    return f"{kind.lower()}:{number}" if kind in {"GPU", "TPU"} else "pluggable"


def op_label(text: str) -> str | None:
    """Return the `name:Type` at the start of an annotation such as `name:Type#key=value,...#`."""
    match = _OP.fullmatch(text.partition("::")[0].partition("#")[0])
    return match and match[0]


def is_derived_line(name: str, line_id: int) -> bool:
    """Return whether a line only repeats events of other lines."""
    low, high = _DERIVED_IDS
    is_numbered = -(2**31) <= line_id < 2**32 and low <= (line_id & 0xFFFFFFFF) <= high
    return is_numbered or bool(_DERIVED_NAMES.fullmatch(name))


def is_eager_executor_line(name: str) -> bool:
    """Return whether a thread belongs to the eager executor."""
    return name.startswith("eager_async_executor")  # eager/eager_executor.cc


def is_pipeline_line(name: str) -> bool:
    """Return whether a thread prepares input for tf.data."""
    # The thread that reduces a dataset continues the graph that requested it.
    return name.startswith("tf_data_") and not name.startswith(_REDUCES)


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassifiedNames:
    """The classified event names of a host plane. Each field is parallel to `Plane.names`."""

    kind: NDArray[np.uint8]  #: `Kind`
    op: tuple[str, ...]  #: op name, stage name or called function; empty for other events
    type: tuple[str, ...]  #: op type; for a stage `Iterator::Map`; empty for other events
    is_unnamed: Flags  #: whether an op is named after its type, `X:X`, as eager ops were
    is_executor: Flags  #: whether it is an executor event
    is_pipeline: Flags  #: whether it and all events within it belong to tf.data


def classify(plane: Plane) -> ClassifiedNames:
    """Classify the event names of a host plane."""
    kinds, ops, types = zip(*map(_classify, plane.names, plane.display_names), strict=True)
    return ClassifiedNames(
        kind=np.array(kinds, np.uint8),
        op=ops,
        type=types,
        is_unnamed=mask(n == f"{t}:{t}" for n, t in zip(plane.names, types, strict=True)),
        is_executor=mask(n == EXECUTOR for n in plane.names),
        is_pipeline=mask(
            n.startswith(STAGE) or CAPTURED_FUNCTION.fullmatch(n) or GET_NEXT.fullmatch(n)
            for n in plane.names
        ),
    )


def _classify(name: str, display_name: str) -> tuple[Kind, str, str]:
    if name.startswith(STAGE):
        stage = display_name or STAGE + _INDEX.sub("", name.rpartition("::")[2])
        return Kind.STAGE, without_counts(name), stage
    if name.startswith(EAGER) and len(name) > len(EAGER):
        called = name.removeprefix(EAGER)
        if called.startswith("__"):
            return Kind.FUNCTION_CALL, called, ""
        return Kind.EAGER_OP, called, called
    op = _OP.fullmatch(name)
    if op and op[2].startswith("__"):  # a function call that is a graph op
        return Kind.FUNCTION_CALL, op[2], ""
    if op and display_name in {"", op[2]}:
        return Kind.OP, op[1], op[2]
    return Kind.OTHER, "", ""


def without_counts(path: str) -> str:
    """Return a stage's path without the indices that count its restarts."""
    parts = path.split("::")
    return "::".join(p if _SEVERAL_INPUTS.match(p) else _INDEX.sub("", p) for p in parts)

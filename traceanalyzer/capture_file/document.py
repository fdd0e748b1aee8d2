"""The records of a capture file: facts that a trace does not contain.

`encoding` defines the file format. Devices have TensorFlow's full names
(`/job:localhost/replica:0/task:0/device:CPU:0`) or the program's spelling. A missing
device is "", and a missing index is -1.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from traceanalyzer.capture_file.function_records import UNKNOWN, Definition, Function, Tracing
from traceanalyzer.format import listed
from traceanalyzer.trace.xplane import ProfileOptions

# TensorFlow's name for the graph of a session of TensorFlow 1. Further graphs of a program have a
# number: `unknown_graph#1`.
SESSION: Final = "unknown_graph"
# Origins of a scope's device other than a resource.
OF_ANOTHER: Final = -1
OF_MACHINE: Final = -2
OF_OP: Final = -3  # less the index of the signature

# A JSON value; `graph_def` describes the values of attributes.
if TYPE_CHECKING:
    Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
else:
    Json: TypeAlias = Any  # msgspec reads no type that contains itself
# The attributes of a node or an eager op, by name.
Attributes: TypeAlias = Mapping[str, Json]
NO_ATTRIBUTES: Final[Attributes] = MappingProxyType({})

LARGEST: Final = 2**63 - 1  # of an integer
_Int64: TypeAlias = Annotated[int, Meta(ge=-LARGEST, le=LARGEST)]
Shape: TypeAlias = tuple[_Int64, ...] | None  # sizes, -1 if unknown; None for an unknown rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A line of Python code that was running when an op was created."""

    file: str  #: absolute for files that were imported or run
    line: _Int64
    code: str  #: name of the code object: a function, `<module>`, `<lambda>`
    is_user: bool  #: neither in the standard library nor in an installed package
    text: str | None = None  #: the text of the line; None if unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A statement of the program, or only the header of a compound statement such as `with`."""

    file: str
    line: _Int64  #: its first line
    text: tuple[str, ...]  #: its lines as they are, indented


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A `tf.device` scope."""

    device: str  #: the requested device; "" if the scope lifts an outer request
    frame: int  #: the user's frame that entered it
    #: Whose device it is: the index of a resource; `OF_OP` less the index of the signature that
    #: made a tensor; `OF_ANOTHER`; `OF_MACHINE` for the machine's first device; None if the code
    #: spells the device out.
    origin: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One profiler session of the captured program."""

    trace: str | None = None  #: xplane file, relative to the capture file's folder
    method: str  #: who ran it: the profiler `server` or the Python `api` for us, or the `script`
    requested: ProfileOptions | None = None  #: None if unknown (the script's own)
    start_ns: _Int64  #: since 1970
    stop_ns: _Int64 | None = None  #: None if the program ended first
    reason: str  #: why it began and ended
    others_share: float | None = None  #: of the program's CPUs, taken by other processes
    idle_share: float | None = None  #: of these CPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureNote:
    """A message about something missing or misleading in the recording, shown under `health`."""

    id: str  #: the kind of note; does not change between versions
    severity: str  #: `info` or `warning`
    message: str  #: one line


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtError:
    """An error that affects placement, or that ended the program."""

    #: `resource_exhausted`, `xla_unsupported` (XLA cannot compile an op), `no_device` (a requested
    #: device does not exist), or `program` (it ended the program).
    where: str
    type: str  #: the exception's class
    message: str  #: if long, the first 2000 characters and the last 1000
    raised: tuple[int, ...]  #: the user's frames, innermost first
    handler: int  #: the frame that caught it; -1 if none did, or it is unknown
    handler_lines: tuple[int, ...] = ()  #: first and last line of its body; empty if unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibilityChoice:
    """The last line that chose the visible GPUs, by `CUDA_VISIBLE_DEVICES` or by `tf.config`."""

    how: str  #: `CUDA_VISIBLE_DEVICES` or `tf.config.set_visible_devices`
    value: str  #: the variable's value, or the names of the devices, as a Python list
    is_constant: bool = False  #: whether its source shows that it hides every GPU on any machine
    frame: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """The configuration of TensorFlow 1 sessions (`ConfigProto`, core/protobuf/config.proto)."""

    is_own: bool  #: whether the program provided it; otherwise it is from `tf.config`
    is_local: bool  #: whether they ran in the program's own process, not on a server
    soft_placement: bool
    device_types: tuple[str, ...] = ()  #: of their devices; empty if unknown
    device_count: Mapping[str, int] = field(default_factory=dict)  #: the most devices, by type
    #: The optimizer options that were set (`RewriterConfig`): names of enum values, numbers, or
    #: lists of names.
    rewrites: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """An input or output of an eager op."""

    dtype: str = ""  #: "" if not recorded (a Python value)
    device: str = ""
    backing_device: str = ""  #: the device of its memory: the CPU for an int32 "on" a GPU
    resource: int | None = None  #: the resource of a handle
    shape: Shape = None  #: None also if not recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The signature of an eager op or function call. Equal signatures are recorded once."""

    op: str  #: op type; of a call, the definition's name
    #: Whether it calls a function. `inputs` are then its `_Arg`s in order, with captured tensors.
    is_function: bool
    scope: str = ""  #: the device that the eager scope requests
    scope_frame: int  #: the frame that entered the scope
    frame: int  #: the innermost frame of the user's code
    attributes: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    scopes: tuple[int, ...] = ()  #: innermost first; empty also if only the innermost is known
    library: int = UNKNOWN  #: as in `Definition`, of the first such op


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A variable, table, iterator, or other resource."""

    signature: int = UNKNOWN  #: of the op that created it
    name: str = ""
    dtype: str = ""  #: "" if unknown
    shape: Shape = None
    bytes: _Int64 | None = None
    device: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredKernel:
    """A kernel of a custom op, which another library defines (`KernelDef` in kernel_def.proto)."""

    op: str
    device_type: str  #: `CPU`, `GPU`, `DEFAULT` or another
    #: The values that each constrained attribute may have, strings as plain text.
    constraints: Mapping[str, tuple[str | int | bool, ...]]
    host_memory_args: tuple[str, ...] = ()  #: names of arguments that must be in host memory
    priority: int = 0  #: TensorFlow uses the matching kernel with the highest
    label: str = ""  #: required value of a node's `_kernel` attribute


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineObstacle:
    """An obstacle to using a GPU on this machine, found by `traceanalyzer doctor`."""

    id: str  #: of the doctor's check
    text: str  #: a clause
    how: str  #: how it was found out
    fix: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EagerSequence:
    """The eager ops of one thread in one profiler session, in order, run-length encoded."""

    thread: _Int64  #: its number in the trace's `traceanalyzer:eager` events
    name: str  #: of the thread
    session: int
    signatures: NDArray[np.uint32]
    counts: NDArray[np.uint32]  #: how many ops in a row have that signature


@dataclass(frozen=True, kw_only=True, eq=False)
class CaptureFile:
    """The records of one capture."""

    tool: str  #: version of traceanalyzer that wrote it
    host: str  #: name of the host, as in the trace's file name
    complete: bool  #: whether the recorder finished; False if the script was killed
    command: tuple[str, ...] | None = None  #: words of the command line, with secrets masked
    #: TensorFlow's version and build, and environment variables that can affect it.
    environment: Mapping[str, Json] | None = None
    #: Devices, strategies, options of the optimizer, and Keras models, at the program's end.
    devices: Mapping[str, Json] | None = None
    gpus: tuple[Mapping[str, Json], ...] = ()  #: what NVML reports for each; empty without a driver
    log: tuple[str, ...] = ()  #: TensorFlow's log lines about devices
    machine_obstacles: tuple[MachineObstacle, ...] = ()  #: if TensorFlow saw no GPU
    sessions: tuple[Session, ...] = ()
    notes: tuple[CaptureNote, ...] = ()
    errors: tuple[CaughtError, ...] = ()
    visibility: tuple[VisibilityChoice, ...] = ()
    session_configs: tuple[SessionConfig, ...] = ()  #: each distinct one once
    frames: tuple[Frame, ...] = ()
    statements: tuple[Statement, ...] = ()  #: of the user's frames, and the constants they use
    scopes: tuple[Scope, ...] = ()
    #: Lines that enter a CPU scope but may request another device on another machine.
    chosen: frozenset[int] = frozenset()
    attributes: tuple[Attributes, ...] = ()  #: the distinct sets
    definitions: tuple[Definition, ...] = ()
    functions: tuple[Function, ...] = ()
    tracings: tuple[Tracing, ...] = ()  #: in the order of time; of a function, not all of very many
    signatures: tuple[Signature, ...] = ()
    resources: tuple[Resource, ...] = ()  #: that eager ops made or used
    kernels: tuple[RegisteredKernel, ...] = ()  #: of other libraries' ops
    sequences: tuple[EagerSequence, ...] = ()
    omitted: Mapping[str, int] = field(default_factory=dict)  #: left out to stay below a size limit

    @property
    def tensorflow_version(self) -> str | None:
        """The version of TensorFlow that ran, such as `2.21.0`; None if not recorded."""
        tensorflow = (self.environment or {}).get("tensorflow")
        version = tensorflow.get("version") if isinstance(tensorflow, dict) else None
        return version if isinstance(version, str) and version else None

    @cached_property
    def _definitions(self) -> dict[str, Definition]:
        return {each.name: each for each in reversed(self.definitions)}

    @cached_property
    def _functions(self) -> dict[str, Function]:
        return {each.name: each for each in reversed(self.functions)}

    @cached_property
    def _texts(self) -> dict[tuple[str, int], str | None]:
        return {(f.file, f.line): f.text for f in reversed(self.frames) if f.text is not None}

    def definition(self, name: str) -> Definition | None:
        """Return a function's definition, or None. The first session graph has the name ""."""
        return self._definitions.get("" if name == SESSION else name)

    def function(self, name: str) -> Function | None:
        """Return an instantiated function by name, or None."""
        return self._functions.get(name)

    def session_graphs(self) -> Iterator[Function]:
        """Yield the graphs of TensorFlow 1 sessions."""
        return (function for function in self.functions if is_session(function.name))

    @property
    def has_earlier_resources(self) -> bool:
        """Whether a capture in code uses resources, such as variables, that it did not see made."""
        is_in_code = any(note.id == "captured_in_code" for note in self.notes)
        given = (tensor for signature in self.signatures for tensor in signature.inputs)
        return is_in_code and any(t.dtype == "resource" and t.resource is None for t in given)

    def frame(self, index: int) -> Frame | None:
        """Return the frame at an index; None for -1."""
        return None if index == UNKNOWN else self.frames[index]

    def line_text(self, file: str, line: int) -> str | None:
        """Return the text of a line of the program, or None if unknown."""
        return self._texts.get((file, line))

    def attribute_set(self, index: int) -> Attributes:
        """Return the attribute set at an index; an empty one for -1."""
        return NO_ATTRIBUTES if index == UNKNOWN else self.attributes[index]

    def resource_of(self, tensor: Tensor) -> Resource | None:
        """Return the resource of a handle, or None."""
        return None if tensor.resource is None else self.resources[tensor.resource]

    def frame_of_node(self, function: str, node: str, *, of_library: bool = False) -> Frame | None:
        """Return the user's (or the library's) frame that created a node; None if unknown."""
        definition = self.definition(function)
        if definition is None or (at := definition.index(node)) == UNKNOWN:
            return None
        frames = definition.libraries if of_library else definition.frames
        return self.frame(frames[at]) if frames else None


def is_session(function: str) -> bool:
    """Return whether a name belongs to the graph of a TensorFlow 1 session."""
    return function == SESSION or function.startswith(f"{SESSION}#")


# --- Lines of code in words -----------------------------------------------------------------------

_PACKAGES: Final = ("/site-packages/", "/dist-packages/")
_NAMES: Final = {"keras": "Keras", "tensorflow": "TensorFlow", "tf_keras": "Keras"}


def shown_path(frame: Frame) -> str:
    """Return the path of a frame's file. Paths of library files begin at the package."""
    path = frame.file.replace("\\", "/")
    for folder in _PACKAGES:
        if not frame.is_user and folder in path:
            return path.rpartition(folder)[2]
    return path


def file_name(frame: Frame) -> str:
    """Return the name of a line's file, without folders."""
    return PurePosixPath(shown_path(frame)).name


def line_text(frame: Frame) -> str:
    """Return a short name for a line of code, such as `train.py:7`."""
    return f"{file_name(frame)}:{frame.line}"


def lines_text(frames: Iterable[Frame | None]) -> str:
    """Return the names of distinct lines, sorted by file and line; "" if all lines are unknown."""
    known = sorted({(f.file, f.line, line_text(f)) for f in frames if f is not None})
    return listed(list(dict.fromkeys(text for _, _, text in known)))


def same_place(frame: Frame | None) -> str:
    """Return a line's file and function, which stay the same when other lines are edited."""
    return "" if frame is None else f"{file_name(frame)} {frame.code}"


def library_of(frame: Frame) -> str:
    """Return the library that contains a line: `Keras`, or the name of the package."""
    package = shown_path(frame).lstrip("/").partition("/")[0].removesuffix(".py")
    return _NAMES.get(package, package)


def is_below(frame: Frame, folder: str) -> bool:
    """Return whether a line is library code in a folder, such as `keras/distribute/`."""
    return not frame.is_user and f"/{folder}" in f"/{shown_path(frame)}"

"""What a capture file holds: the evidence of a capture that its trace cannot carry, as records.

The file `HOST.placement.json.gz` lies beside `HOST.xplane.pb`: one JSON object, gzipped. A reader
refuses another `format` or `version` and ignores keys it does not know.

```
{"format": "traceanalyzer.placement", "version": 1,
 "tool": version of traceanalyzer, "host": name of the host, as in the trace's file name,
 "complete": whether the recorder came to its end (false: the script was killed),
 "command": [text, a word of the command line that made it] | null,                may be missing
 "environment": {...} | null, "devices": {...} | null, "gpus": [{...}],     open, see `CaptureFile`
 "log": [text], "log_source": "script" | "probe" | "script+probe" | "none",
 "sessions": [{"trace": path relative to this file | null, "method": "server" | "api" | "script",
               "requested": LEVELS | null, "effective": LEVELS | null,
               "proof": "trace" | "version" | null,
               "start_ns": int, "stop_ns": int | null, "reason": text}],
 "notes": [{"id": text, "severity": "info" | "warning", "message": text}],
 "errors": [{"where": "tf.config" | "resource_exhausted" | "xla_unsupported" | "no_device"
                        | "program",
             "type": text, "message": text, "raised": [FRAME, innermost first],
             "handler": FRAME or -1, "call": text | null}],
 "visibility": [{"how": text, "value": text, "manner": text,
                 "frame": FRAME or -1}],                                          may be missing
 "session_configs": [{"is_own": bool, "is_local": bool, "device_types": [text],
                      "soft_placement": bool, "log_placement": bool,
                      "device_count": {device type: int}, "memory_fraction": float | null,
                      "rewrites": {option: text | number | bool | [text]}}],        may be missing
 "strings": [text],                              pool of the texts in columns, marked STRING below
 "frames": [[file, line, code name, 1 if the user's own else 0]],              pool: FRAME is its
 "scopes": [[requested device, FRAME or -1]],                                  index; SCOPE, of this
 "chosen": [FRAME],                                                              may be missing
 "scope_origins": [index of a resource | -1 | -2 | -3 - index of a SIGNATURE | null,
                   one for each scope],                                      may be missing
 "frame_texts": [the line's text | null, one for each frame],                      may be missing
 "attributes": [{name: VALUE}],                                           pool of distinct sets: SET
 "definitions": [{"name": text, "nodes": [STRING], "frames": [FRAME or -1],
                  "libraries": [FRAME or -1],                                 which may be missing
                  "scopes": [[SCOPE, innermost first] | null],
                  "shapes": [[SHAPE, one for each output] | null]}],          which may be missing
 "functions": [{"name": text, "instances": [{"count": int, "input": GRAPH, "assigned": [STRING],
                  "partitions": [{"device": text, "names": [STRING], "ops": [STRING],
                                  "attributes": SETS, "origin_functions": [STRING],
                                  "origin_nodes": [STRING]}]}]}],
 "signatures": [{"op": text, "is_function": bool, "scope": text, "scope_frame": FRAME or -1,
                 "scopes": [SCOPE, innermost first], which may be missing,
                 "frame": FRAME or -1, "attributes": SET,
                 "library": FRAME or -1, which may be missing,
                 "inputs": [TENSOR], "outputs": [TENSOR]}],
 "resources": [{"signature": index of the creating signature or -1, "name": text, "dtype": text,
                "shape": SHAPE, "bytes": int | null, "device": text}],
 "kernels": [{"op": text, "device_type": text, "constraints": {attribute: [text | int | bool]},
              "host_memory_args": [text], "priority": int, "label": text}],         may be missing
 "sequences": [{"thread": int, "name": text, "session": int, "first_index": int,
                "signatures": base64 of uint32 (little-endian), "counts": the same}],
 "omitted": {what: how many}}

GRAPH:  {"producer": int, "names": [STRING], "ops": [STRING],
         "arity": [number of inputs], "inputs": [STRING, those of all nodes, one after another],
         "devices": [STRING], "attributes": SETS,
         "origin_functions": [STRING], "origin_nodes": [STRING]}
SETS:   [SET or -1] | null where they were left out
LEVELS: {"host_tracer_level": int, "device_tracer_level": int, "python_tracer_level": int}
TENSOR: [STRING of its type, STRING of its device, STRING of its backing device,
         index of its resource | null, SHAPE]
SHAPE:  [size, -1 where unknown] | null for an unknown rank
VALUE:  a type is plain text, as TensorFlow's DataType in lower case without `DT_` ("float",
        "int32", "resource", "float_ref"); int, float, bool as such; a list a list;
        a string {"s": text}; a shape {"shape": SHAPE}; a tensor {"tensor": type, "shape": SHAPE},
        its contents are never kept; a function {"func": name};
        a float that JSON has no number for {"float": "nan" | "inf" | "-inf"};
        null where it is not set.
```

Texts over 1000 characters are cut in attributes. Devices are in TensorFlow's full form
(`/job:localhost/replica:0/task:0/device:CPU:0`) or as the program spelt them, "" where none is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "FORMAT",
    "LARGEST",
    "NO_ATTRIBUTES",
    "OF_ANOTHER",
    "OF_MACHINE",
    "OF_OP",
    "SESSION",
    "UNKNOWN",
    "VERSION",
    "Attributes",
    "CaptureFile",
    "CaughtError",
    "Definition",
    "EagerSequence",
    "Frame",
    "Function",
    "Graph",
    "Instance",
    "Json",
    "Levels",
    "Note",
    "Partition",
    "RegisteredKernel",
    "Resource",
    "Scope",
    "Session",
    "SessionConfig",
    "Shape",
    "Signature",
    "Tensor",
    "VisibilityChoice",
    "is_session",
    "split_input",
]

FORMAT: Final = "traceanalyzer.placement"
VERSION: Final = 1
# What TensorFlow calls the graph of a session of TensorFlow 1. A program's further ones have a
# number after it: `unknown_graph#1`.
SESSION: Final = "unknown_graph"
UNKNOWN: Final = -1  # an index that points to nothing
# Origins of a scope's device that are no resource's.
OF_ANOTHER: Final = -1
OF_MACHINE: Final = -2
OF_OP: Final = -3  # less the index of the signature
LARGEST: Final = 2**63 - 1  # of an integer
OUTRIGHT: Final = "outright"  # manners of a choice of visible GPUs
UNLESS_SET: Final = "unless_set"
CONDITION: Final = "condition"
COMPUTED: Final = "computed"
NO_SOURCE: Final = "no_source"
_MOST_DIGITS: Final = 9  # of an output's number, which is an int32

# A value of JSON; in attributes encoded as VALUE above.
Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
# The attributes of a node or an eager op, by name.
Attributes: TypeAlias = "Mapping[str, Json]"
# Sizes, -1 where unknown; None for an unknown rank.
Shape: TypeAlias = "tuple[int, ...] | None"

NO_ATTRIBUTES: Final[Mapping[str, Json]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A place in Python code, from the stack at the time an op was made.

    Attributes:
        file: Path as Python has it, absolute for what was imported or run.
        line: Line, from 1.
        code: Name of the code object: a function, `<module>`, `<lambda>`.
        is_user: Whether it is the user's own: not of the standard library, nor site-packages.
        text: What stands on that line; None where it is not known, see `source_lines`.
    """

    file: str
    line: int
    code: str
    is_user: bool
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """A `tf.device` scope.

    Attributes:
        device: What it asks for; "" where it lifts an outer request.
        frame: The user's frame that entered it, or -1.
        origin: Whose device that is: the index of a resource, where the scope was given the
            resource's device; `OF_OP` less the index of the signature that made a tensor, for that
            of the tensor; `OF_ANOTHER` for that of something else; `OF_MACHINE` for the first
            device there is; None where code spells the device out.
    """

    device: str
    frame: int
    origin: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """Tracer levels, as in TensorFlow's ProfileOptions."""

    host_tracer_level: int
    device_tracer_level: int
    python_tracer_level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One profiler session of the captured program.

    Attributes:
        trace: The xplane file, relative to the capture file's folder; None where none was written.
        method: Who ran it: the profiler `server` or the Python `api` for us, or the `script`.
        requested: The levels that were asked for; None where unknown (the script's own).
        effective: Those that were in force; None where nothing proves any.
        start_ns: Begin, nanoseconds since 1970.
        stop_ns: End, or None where the program ended first.
        reason: Why it began and ended, in words.
        proof: What proves `effective`: the `trace` itself, which states them from TensorFlow 2.19
            on; or the `version`, one that is known to do as it is told. None where nothing does.
    """

    trace: str | None
    method: str
    requested: Levels | None
    effective: Levels | None
    start_ns: int
    stop_ns: int | None
    reason: str
    proof: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What was not recorded, or is not as it seems, and why; shown under `health`.

    Attributes:
        id: Stable word for the kind of note.
        severity: `info` or `warning`.
        message: One line.
    """

    id: str
    severity: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtError:
    """An error that tells of placement, as it passed through the program.

    Attributes:
        where: `tf.config` (a call that failed), `resource_exhausted`, `xla_unsupported` (a
            function that XLA was to compile has an op that it cannot), `no_device` (what was asked
            for does not exist), or `program` (it ended the program).
        type: The exception's class.
        message: Its text; of a long one the first 2000 characters and the last 1000.
        raised: The user's frames that raised it, innermost first.
        handler: The frame that caught it, or -1: nobody did.
        call: The `tf.config` function, or None.
    """

    where: str
    type: str
    message: str
    raised: tuple[int, ...]
    handler: int
    call: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VisibilityChoice:
    """A line of the program that chose which GPUs TensorFlow sees: the last one of its kind.

    Attributes:
        how: `CUDA_VISIBLE_DEVICES` or `tf.config.set_visible_devices`.
        value: The variable's value, or the names of the devices, as a Python list.
        manner: How it came to choose no GPU, as far as the source shows: `outright`, whatever the
            machine has; where the variable is not set already (`unless_set`); under a `condition`;
            by what it `computed`; or `no_source`.
        frame: The line, or -1.
    """

    how: str
    value: str
    manner: str
    frame: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """How sessions of TensorFlow 1 were configured (`ConfigProto`, core/protobuf/config.proto).

    Attributes:
        is_own: Whether the program gave it; else it is what `tf.config` says.
        is_local: Whether they ran in the program's own process, not on a server.
        soft_placement: `allow_soft_placement`.
        log_placement: `log_device_placement`.
        device_types: Types of the devices that they had; empty where that is unknown.
        device_count: `device_count`: at most how many devices of a type they had.
        memory_fraction: Which part of a GPU's memory they were given; None where that was not set.
        rewrites: What was set of the optimizers' options (`RewriterConfig`): a choice by its name,
            "ON"; numbers and lists of names as such.
    """

    is_own: bool
    is_local: bool
    soft_placement: bool
    log_placement: bool = False
    device_types: tuple[str, ...] = ()
    device_count: Mapping[str, int] = field(default_factory=dict)
    memory_fraction: float | None = None
    rewrites: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A function's nodes as Python made them: before inlining, so under their own names.

    One entry a node in each column.

    Attributes:
        name: The definition's name, as in traces (`__inference_train_step_42`).
        nodes: Names.
        frames: The innermost frame that is the user's own, or -1.
        libraries: The innermost frame of a library that the user's frame called, or -1 where the
            user's code called TensorFlow itself; none at all where these were not recorded.
        scopes: The `tf.device` scopes around it, innermost first; None where not recorded.
        shapes: The shapes of its outputs, as far as Python knew them; None where not recorded. Of a
            program that switched on no optimizer that goes by them there are none at all.
    """

    name: str
    nodes: tuple[str, ...]
    frames: tuple[int, ...]
    scopes: tuple[tuple[int, ...] | None, ...]
    shapes: tuple[tuple[Shape, ...] | None, ...] = ()
    libraries: tuple[int, ...] = ()
    _index: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def index(self, node: str) -> int:
        """Return the position of a node in the columns, or -1."""
        return _position(self._index, self.nodes, node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The graph of an instantiated function: the placer's own input.

    Inlined and lowered, with the program's requests (TensorFlow's dump `before_placer`, in 2.12
    `placer_input`). One entry a node in each column, in the dump's order.

    Attributes:
        names: Names after inlining.
        ops: Op types.
        inputs: As in a NodeDef: `node`, `node:1`, `^node` for a control edge.
        devices: The requested device, "" for none; of an `_Arg` the device it is assigned to.
        attributes: Indices of attribute sets, -1 where they were left out.
        origin_functions: The function each node was inlined from; "" for the function's own.
        origin_nodes: Its name there; "" for the function's own, whose name is the same.
        producer: GraphDef version of the TensorFlow that made it; 0 unknown.
    """

    names: tuple[str, ...]
    ops: tuple[str, ...]
    inputs: tuple[tuple[str, ...], ...]
    devices: tuple[str, ...]
    attributes: tuple[int, ...]
    origin_functions: tuple[str, ...]
    origin_nodes: tuple[str, ...]
    producer: int = 0
    _index: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.names)

    def index(self, node: str) -> int:
        """Return the position of a node in the columns, or -1."""
        return _position(self._index, self.names, node)

    def sources(self, node: int) -> Iterator[tuple[int, int]]:
        """Yield the node and the output that each data input comes from, if it is in the graph."""
        for text in self.inputs[node]:
            name, output = split_input(text)
            at = self.index(name)  # none for a control edge, whose ^ is no part of a name
            if at != UNKNOWN:
                yield at, output


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """What ran of a function on one device, as its executor got it.

    After grappler, so under its names and op types (TensorFlow's dump `after_partition_passes`).
    One entry a node in each column; what they mean is as in `Graph`.

    Attributes:
        device: The device of the partition.
        names: Names.
        ops: Op types.
        attributes: Indices of attribute sets, -1 where they were left out.
        origin_functions: The function each node was inlined from, "" for none.
        origin_nodes: Its name there, "" for none.
    """

    device: str
    names: tuple[str, ...]
    ops: tuple[str, ...]
    attributes: tuple[int, ...]
    origin_functions: tuple[str, ...]
    origin_nodes: tuple[str, ...]
    _index: dict[str, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.names)

    def index(self, node: str) -> int:
        """Return the position of a node in the columns, or -1."""
        return _position(self._index, self.names, node)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One instantiation of a function: what the placer was given and what became of it.

    Attributes:
        input: The placer's input.
        assigned: The device the placer chose for each node of `input`, "" unknown.
        partitions: What ran; empty where TensorFlow did not dump it (2.12), or it was left out.
        count: How many instantiations were alike.
    """

    input: Graph
    assigned: tuple[str, ...]
    partitions: tuple[Partition, ...]
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function that was instantiated.

    Attributes:
        name: The definition's name, as in traces.
        instances: Its instantiations, in order of time: the same function called with arguments
            elsewhere, or from another runtime (tf.data), is placed anew.
    """

    name: str
    instances: tuple[Instance, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """An input or output of an eager op.

    Attributes:
        dtype: Type, named as in attributes; "" where not recorded (a Python value).
        device: The device it is on for TensorFlow.
        backing_device: The one that holds its memory: the CPU for an int32 "on" a GPU.
        resource: For a handle, the index of its resource; None for other tensors.
        shape: Its shape; None also where not recorded.
    """

    dtype: str
    device: str
    backing_device: str
    resource: int | None
    shape: Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A kind of eager op or call: what is alike was recorded once.

    Attributes:
        op: Op type; of a call, the definition's name.
        is_function: Whether it calls a function; then `inputs` bind its `_Arg`s, in order,
            captured ones included.
        scope: The device that the eager scope asks for, "" for none.
        scope_frame: The frame that entered the scope, or -1.
        scopes: All eager scopes around it, as indices, the innermost first; where there are none,
            or only the innermost is known, none.
        frame: The innermost frame that is the user's own, or -1.
        library: The innermost frame of a library that the user's frame called, the first time; -1
            where the user's code called TensorFlow itself.
        attributes: Index of the set of attributes.
        inputs: Its inputs.
        outputs: Its outputs.
    """

    op: str
    is_function: bool
    scope: str
    scope_frame: int
    frame: int
    attributes: int
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    scopes: tuple[int, ...] = ()
    library: int = UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A variable, table, iterator or other resource.

    Attributes:
        signature: Index of the signature that created it, or -1; its frame is the creating line.
        name: Its name, as the program or TensorFlow gave it.
        dtype: Type of what it holds, "" unknown.
        shape: Shape of what it holds; None where unknown.
        bytes: Size of what it holds, or None.
        device: Where it lives.
    """

    signature: int
    name: str
    dtype: str
    shape: Shape
    bytes: int | None
    device: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredKernel:
    """A kernel of an op that is not TensorFlow's own (`KernelDef` in kernel_def.proto).

    Attributes:
        op: Op type.
        device_type: `CPU`, `GPU`, `DEFAULT` or another.
        constraints: For each constrained attribute the values that it takes: types named as in
            attributes, strings as plain text.
        host_memory_args: Names of the arguments that it wants in host memory.
        priority: Of those that match, the highest is taken.
        label: What a node's `_kernel` attribute must say.
    """

    op: str
    device_type: str
    constraints: Mapping[str, tuple[str | int | bool, ...]]
    host_memory_args: tuple[str, ...] = ()
    priority: int = 0
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EagerSequence:
    """The eager ops of one thread in one profiler session, in order, run-length coded.

    Attributes:
        thread: The recorder's number of the thread, as in its `traceanalyzer:eager` events.
        name: The thread's name.
        session: Index of the session.
        first_index: Position of the first op, counted from the thread's first in the program.
        signatures: uint32, indices of signatures.
        counts: uint32, how many in a row are of that signature.
    """

    thread: int
    name: str
    session: int
    first_index: int
    signatures: NDArray[np.uint32]
    counts: NDArray[np.uint32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CaptureFile:
    """The evidence of one capture.

    Attributes:
        tool: Version of traceanalyzer that wrote it.
        host: Name of the host.
        complete: Whether the recorder came to its end.
        command: The words of the command line that made the capture, secrets in them masked (see
            `command_words`); None where it was made in code, or by an older version.
        environment: Versions of Python, TensorFlow and Keras, build info, platform, command line,
            variables of the environment that concern TensorFlow; None where not recorded.
        devices: Physical, visible and logical devices, soft placement, strategies, options of
            the optimizer and of XLA, at the program's end, and the models of Keras 3 that ran
            (`keras_models`, see `recorder/keras_models.py`); None where not recorded.
        gpus: What NVML says of each GPU; empty without a driver.
        log: TensorFlow's lines about devices.
        log_source: Where `log` comes from: `script`, `probe`, `script+probe` or `none`.
        sessions: Profiler sessions.
        notes: What was not recorded.
        errors: Errors that tell of placement.
        visibility: The lines that chose which GPUs are visible.
        session_configs: The configurations of sessions of TensorFlow 1, each distinct one once.
        frames: Pool of places in code.
        scopes: Pool of `tf.device` scopes.
        chosen: Lines that enter a scope for a CPU, and may ask for another device on another
            machine: what they ask for is computed, or a condition is around them.
        attributes: Pool of attribute sets.
        definitions: Functions as Python made them.
        functions: Functions as they were instantiated.
        signatures: Kinds of eager ops and calls.
        resources: Resources that eager ops made or used.
        kernels: The kernels of ops that other libraries have brought, as far as the program has
            such ops.
        sequences: What each thread ran, as signatures.
        omitted: What was left out to stay within the size limit, and how many of it.
    """

    tool: str
    host: str
    complete: bool
    command: tuple[str, ...] | None = None
    environment: Mapping[str, Json] | None = None
    devices: Mapping[str, Json] | None = None
    gpus: tuple[Mapping[str, Json], ...] = ()
    log: tuple[str, ...] = ()
    log_source: str = "none"
    sessions: tuple[Session, ...] = ()
    notes: tuple[Note, ...] = ()
    errors: tuple[CaughtError, ...] = ()
    visibility: tuple[VisibilityChoice, ...] = ()
    session_configs: tuple[SessionConfig, ...] = ()
    frames: tuple[Frame, ...] = ()
    scopes: tuple[Scope, ...] = ()
    chosen: frozenset[int] = frozenset()
    attributes: tuple[Attributes, ...] = ()
    definitions: tuple[Definition, ...] = ()
    functions: tuple[Function, ...] = ()
    signatures: tuple[Signature, ...] = ()
    resources: tuple[Resource, ...] = ()
    kernels: tuple[RegisteredKernel, ...] = ()
    sequences: tuple[EagerSequence, ...] = ()
    omitted: Mapping[str, int] = field(default_factory=dict)
    _texts: dict[tuple[str, int], str] = field(default_factory=dict, init=False, repr=False)
    _definitions: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    _functions: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    @property
    def tensorflow_version(self) -> str | None:
        """The version of TensorFlow that ran, such as `2.21.0`; None where not recorded."""
        tensorflow = (self.environment or {}).get("tensorflow")
        version = tensorflow.get("version") if isinstance(tensorflow, dict) else None
        return version if isinstance(version, str) and version else None

    def definition(self, name: str) -> Definition | None:
        """Return the definition of that name, or None; the first session's has none."""
        name = "" if name == SESSION else name
        at = _position(self._definitions, (d.name for d in self.definitions), name)
        return None if at == UNKNOWN else self.definitions[at]

    def function(self, name: str) -> Function | None:
        """Return the instantiated function of that name, or None."""
        at = _position(self._functions, (f.name for f in self.functions), name)
        return None if at == UNKNOWN else self.functions[at]

    def session_graphs(self) -> Iterator[Function]:
        """Walk the graphs of sessions of TensorFlow 1."""
        return (function for function in self.functions if is_session(function.name))

    def frame(self, index: int) -> Frame | None:
        """Return the frame at an index, None for -1."""
        return None if index == UNKNOWN else self.frames[index]

    def line_text(self, file: str, line: int) -> str | None:
        """Return what stands on a line of the program, or None where that is not known."""
        if not self._texts:
            for frame in self.frames:
                if frame.text is not None:
                    self._texts.setdefault((frame.file, frame.line), frame.text)
        return self._texts.get((file, line))

    def attribute_set(self, index: int) -> Attributes:
        """Return the attributes at an index, none for -1."""
        return NO_ATTRIBUTES if index == UNKNOWN else self.attributes[index]

    def resource_of(self, tensor: Tensor) -> Resource | None:
        """Return the resource that a handle stands for, or None."""
        return None if tensor.resource is None else self.resources[tensor.resource]

    def frame_of_node(self, function: str, node: str) -> Frame | None:
        """Return the user's frame that made a node of a definition, or None where unknown."""
        definition = self.definition(function)
        return None if definition is None else self._at(definition, node, definition.frames)

    def library_of_node(self, function: str, node: str) -> Frame | None:
        """Return the library's frame that made a node, or None where the user's own code did."""
        definition = self.definition(function)
        return None if definition is None else self._at(definition, node, definition.libraries)

    def _at(self, definition: Definition, node: str, frames: tuple[int, ...]) -> Frame | None:
        at = definition.index(node)
        return None if at == UNKNOWN or not frames else self.frame(frames[at])


def is_session(function: str) -> bool:
    """Return whether a function's name stands for the graph of a session of TensorFlow 1."""
    return function == SESSION or function.startswith(f"{SESSION}#")


def split_input(text: str) -> tuple[str, int]:
    """Split an input of a NodeDef: the node's name, ^ before it where it only waits; its output."""
    name, _, output = text.partition(":")
    return name, int(output) if output.isdecimal() and len(output) <= _MOST_DIGITS else 0


def _position(index: dict[str, int], names: Iterable[str], name: str) -> int:
    """Look a name up, filling the index at the first time; the first of equal names counts."""
    if not index:
        for at, each in enumerate(names):
            index.setdefault(each, at)
    return index.get(name, UNKNOWN)

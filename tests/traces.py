"""A small language for writing traces by hand.

A word makes a thing; what stands in a second pair of parentheses is inside it::

    space = xspace(
        host(
            line("python")(
                event("train", us(0, 100), step_num=7)(
                    op("dense/MatMul", "MatMul", us(10, 5)),
                    eager("Unique", us(20, 8)),
                ),
            ),
        ),
        gpu(0)(
            stream(13, "Compute")(
                kernel("gemm", us(12, 3), op="dense/MatMul:MatMul", correlation=7),
            ),
        ),
    )
    trace = decode(space)

Times are written `us(start, duration)`, or with `ps`, `ns`, `ms`; without a duration the event is
an instant. They count from the start of the line, which is 0 unless `at_ns=` is given. An event
must be within the event around it.

Stats are keywords, or `stats={"level 0": ...}` where a name is no identifier: text, whole numbers,
floats and bytes become the field of that type, `ref("text")` a reference to a stat's name (as
TensorFlow 2.3 and later write text), `uint(5)` an unsigned number, `NO_VALUE` a stat without one.

The words from `op` on write as TensorFlow 2.12 to 2.21 does, on GPUs with CUDA; those from `old_op`
on write as 2.2 to 2.5 did. `xspace` returns the protobuf message, which a test may alter.
"""

import gzip
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np

from tests.xspace_proto import XSpace
from traceanalyzer.trace import xplane
from traceanalyzer.trace.columns import Trace

# ---------------------------------------------------------------------------- times


class Span(NamedTuple):
    """When something happened, on its line's clock."""

    start_ps: int
    duration_ps: int

    @property
    def end_ps(self) -> int:
        return self.start_ps + self.duration_ps


def ps(start: int, duration: int = 0) -> Span:
    """A time in picoseconds."""
    return Span(start, duration)


def ns(start: float, duration: float = 0) -> Span:
    """A time in nanoseconds."""
    return Span(round(start * 10**3), round(duration * 10**3))


def us(start: float, duration: float = 0) -> Span:
    """A time in microseconds."""
    return Span(round(start * 10**6), round(duration * 10**6))


def ms(start: float, duration: float = 0) -> Span:
    """A time in milliseconds."""
    return Span(round(start * 10**9), round(duration * 10**9))


# --------------------------------------------------------------------------- values


class ref(str):  # noqa: N801  # a word of the language
    """Text that is kept as the name of a stat and referred to."""

    __slots__ = ()


class uint(int):  # noqa: N801  # a word of the language
    """A whole number kept as unsigned; without it only one beyond 63 bits is, as in TensorFlow."""

    __slots__ = ()


class _NoValue:
    """A stat that names itself and holds nothing."""


NO_VALUE: Final = _NoValue()

Value = str | int | float | bytes | _NoValue


# --------------------------------------------------------------------- the language


@dataclass(frozen=True, kw_only=True)
class _Thing:
    """What can hold other things."""

    inside: tuple[Any, ...] = ()

    def __call__(self, *inside: Any) -> Self:
        """The same thing with these inside, after those it has."""
        return replace(self, inside=(*self.inside, *_flat(inside)))


def _flat(things: Iterable[Any]) -> Iterable[_Thing]:
    for thing in things:
        if isinstance(thing, _Thing):
            yield thing
        else:
            yield from _flat(thing)


@dataclass(frozen=True, kw_only=True)
class Event(_Thing):
    """See `event`."""

    name: str
    at: Span
    display_name: str = ""
    occurrences: int | None = None
    stats: Mapping[str, Value] = field(default_factory=dict)
    metadata_stats: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for child in self.inside:
            if child.at.start_ps < self.at.start_ps or child.at.end_ps > self.at.end_ps:
                msg = f"{child.name!r} {child.at} does not lie within {self.name!r} {self.at}"
                raise ValueError(msg)


@dataclass(frozen=True, kw_only=True)
class Line(_Thing):
    """See `line`."""

    name: str
    id: int | None = None
    at_ns: int = 0


@dataclass(frozen=True, kw_only=True)
class Metadata(_Thing):
    """See `metadata`."""

    name: str
    display_name: str = ""
    stats: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Plane(_Thing):
    """See `plane`."""

    name: str
    id: int = 0
    stats: Mapping[str, Value] = field(default_factory=dict)


def event(
    name: str,
    at: Span,
    /,
    *,
    display_name: str = "",
    occurrences: int | None = None,
    metadata_stats: Mapping[str, Value] | None = None,
    stats: Mapping[str, Value] | None = None,
    **more_stats: Value,
) -> Event:
    """An event; one with `occurrences` is an aggregate and has no start.

    Events with the same name, display name and `metadata_stats` share their metadata.
    """
    return Event(
        name=name,
        at=at,
        display_name=display_name,
        occurrences=occurrences,
        stats={**(stats or {}), **more_stats},
        metadata_stats=metadata_stats or {},
    )


def line(name: str, *inside: Any, id: int | None = None, at_ns: int = 0) -> Line:
    """A thread or a stream: its events. `id` is its number among its plane's lines, from 1001."""
    return Line(name=name, id=id, at_ns=at_ns)(*inside)


def plane(
    name: str,
    *inside: Any,
    id: int = 0,
    stats: Mapping[str, Value] | None = None,
    **more_stats: Value,
) -> Plane:
    """A plane: lines, and `metadata` of which no event tells; the stats are its own."""
    return Plane(name=name, id=id, stats={**(stats or {}), **more_stats})(*inside)


def metadata(name: str, *, stats: Mapping[str, Value] | None = None) -> Metadata:
    """An event metadata entry that needs no event, as in `/host:metadata`."""
    return Metadata(name=name, stats=stats or {})


def xspace(
    *planes: Any, hostname: str = "host", errors: Iterable[str] = (), warnings: Iterable[str] = ()
) -> Any:
    """A trace of one host, as a protobuf message."""
    space = XSpace(
        hostnames=[hostname] if hostname else [], errors=list(errors), warnings=list(warnings)
    )
    for thing in _flat(planes):
        _PlaneWriter(space.planes.add()).write(thing)
    return space


def decode(space: Any, **options: Any) -> Trace:
    """What the decoder makes of a message or of bytes."""
    return xplane.decode(np.frombuffer(_bytes(space), np.uint8), **options)


def write(
    folder: Path, space: Any, *, run: str = "run", host: str | None = None, compressed: bool = False
) -> Path:
    """Put a trace where TensorBoard would look for it; returns `folder`, a log directory.

    Several hosts of a run, or several runs, are several calls. The host is by default the one the
    space names.
    """
    run_folder = folder / "plugins" / "profile" / run
    run_folder.mkdir(parents=True, exist_ok=True)
    if host is None:
        host = next(iter(getattr(space, "hostnames", ())), "host")
    content = _bytes(space)
    if compressed:
        (run_folder / f"{host}.xplane.pb.gz").write_bytes(gzip.compress(content, mtime=0))
    else:
        (run_folder / f"{host}.xplane.pb").write_bytes(content)
    return folder


def _bytes(space: Any) -> bytes:
    if isinstance(space, bytes | bytearray):
        return bytes(space)
    # Deterministic: protobuf would else put the entries of a map in any order.
    content: bytes = space.SerializeToString(deterministic=True)
    return content


class _PlaneWriter:
    """Numbers the names of one plane."""

    def __init__(self, message: Any) -> None:
        self._plane = message
        self._stats: dict[str, int] = {}
        self._events: dict[object, int] = {}

    def write(self, thing: Plane) -> None:
        self._plane.id = thing.id
        self._plane.name = thing.name
        self._write_stats(self._plane.stats, thing.stats)
        for part in thing.inside:
            if isinstance(part, Metadata):
                self._metadata(part)
            else:
                self._write_line(part)

    def _write_line(self, part: Line) -> None:
        number = 1001 + len(self._plane.lines)
        message = self._plane.lines.add(
            id=number if part.id is None else part.id,
            name=part.name,
            timestamp_ns=part.at_ns,
        )
        for thing in part.inside:
            self._write_event(message.events, thing)

    def _write_event(self, events: Any, thing: Event) -> None:
        message = events.add(
            metadata_id=self._metadata(
                Metadata(
                    name=thing.name, display_name=thing.display_name, stats=thing.metadata_stats
                )
            ),
            duration_ps=thing.at.duration_ps,
        )
        if thing.occurrences is None:
            message.offset_ps = thing.at.start_ps
        else:
            message.num_occurrences = thing.occurrences
        self._write_stats(message.stats, thing.stats)
        for child in thing.inside:
            self._write_event(events, child)

    def _metadata(self, entry: Metadata) -> int:
        key = (entry.name, entry.display_name, repr(sorted(entry.stats.items())))
        if key not in self._events:
            number = self._events[key] = len(self._events) + 1
            message = self._plane.event_metadata[number]
            message.id = number
            message.name = entry.name
            message.display_name = entry.display_name
            self._write_stats(message.stats, entry.stats)
        return self._events[key]

    def _stat(self, name: str) -> int:
        if name not in self._stats:
            number = self._stats[name] = len(self._stats) + 1
            self._plane.stat_metadata[number].id = number
            self._plane.stat_metadata[number].name = name
        return self._stats[name]

    def _write_stats(self, stats: Any, values: Mapping[str, Value]) -> None:
        for name, value in values.items():
            message = stats.add(metadata_id=self._stat(name))
            match value:
                case _NoValue():
                    pass
                case ref():
                    message.ref_value = self._stat(str(value))
                case str():
                    message.str_value = value
                case bytes():
                    message.bytes_value = value
                case float():
                    message.double_value = value
                case uint():
                    message.uint64_value = value
                case int() if value >= 2**63:
                    message.uint64_value = value
                case int():
                    message.int64_value = int(value)  # a flag too


# --------------------------------------------------- planes and lines of TensorFlow


def host(*inside: Any) -> Plane:
    """The plane `/host:CPU`: threads."""
    return plane("/host:CPU")(*inside)


def gpu(number: int, *inside: Any, **caps: Value) -> Plane:
    """The plane of a GPU: streams; an H100's properties unless others are given."""
    h100: dict[str, Value] = {
        "device_vendor": "Nvidia",
        "clock_rate": 1_980_000,
        "core_count": 132,
        "memory_bandwidth": uint(3_352_320_000_000),
        "memory_size": uint(85_024_112_640),
        "compute_cap_major": 9,
        "compute_cap_minor": 0,
    }
    return plane(f"/device:GPU:{number}", id=number, stats=caps or h100)(*inside)


def task_environment(start_ns: int = 1_700 * 10**15, options: bytes = b"") -> Plane:
    """The plane with the start of the profile, in ns since 1970, and its options."""
    stated: dict[str, Value] = {"profile_options": options} if options else {}
    return plane("Task Environment", profile_start_time=uint(start_ns), stats=stated)


def thread(name: str, number: int, *inside: Any, at_ns: int = 0) -> Line:
    """A thread of a pool, such as `tf_Compute`; the number may be negative."""
    return line(f"{name}/{number}", id=number, at_ns=at_ns)(*inside)


def stream(number: int, *kinds: str, at_ns: int = 0) -> Line:
    """A stream of a GPU: kernels and copies. `kinds` are `Compute`, `MemcpyH2D` ..."""
    return line(f"Stream #{number}({','.join(kinds)})", id=number, at_ns=at_ns)


# ------------------------------------------------------------ events of the host


def op(name: str, type: str, at: Span, /, **stats: Value) -> Event:
    """An op that an executor ran."""
    return event(f"{name}:{type}", at, display_name=type, stats=stats)


def eager(type: str, at: Span, /) -> Event:
    """An eager op: four events of the same span, one within the other."""
    return _eager(type, at, is_func=0)


def call(function: str, at: Span, /, *, step: int = -7, context: int = 77) -> Event:
    """A call of a tf.function, `FunctionRun` within the events of an eager op.

    The step id is shared with the executors; the context links the call to these, on other threads.
    """
    run = event("FunctionRun", at, id=step, _r=1, _pt=2, _p=context)
    return _eager(function, at, run, is_func=1)


def _eager(name: str, at: Span, *inside: Event, is_func: int) -> Event:
    # All four have the span, so what the caller puts in lies within each of them.
    return event("EagerExecute", at, eager_op=ref(name), is_func=is_func)(
        event(f"EagerLocalExecute: {name}", at)(
            event("EagerKernelExecute", at)(event("KernelAndDeviceFunc::Run", at)(*inside))
        )
    )


def executor(at: Span, /, *, step: int = -7, context: int = 77) -> Event:
    """A thread's turn at running ops of a function; the ops go inside."""
    return event("ExecutorState::Process", at, id=step, iter_num=0, _ct=2, _c=context)


def step(number: int, at: Span, /, name: str = "train") -> Event:
    """A step marked by `tf.profiler.experimental.Trace(name, step_num=number, _r=1)`."""
    return event(name, at, step_num=number, _r=1)


def keras_step(number: int, at: Span, /) -> Event:
    """A step as Keras marks it."""
    return event("TraceContext", at, graph_type=ref("train"), step_num=number, _r=1)


def iterator(path: str, at: Span, /, **stats: Value) -> Event:
    """A tf.data iterator at work; `path` from the root, such as `Root::Prefetch::Map`."""
    last = path.rpartition("::")[2]
    display_name = f"Iterator::{last}" if last != path else ""
    return event(f"Iterator::{path}", at, display_name=display_name, stats=stats)


def device(short: str) -> str:
    """The full name of a device of this machine, `CPU:0` or `GPU:1`."""
    return f"/job:localhost/replica:0/task:0/device:{short}"


def send(
    producer: str,
    consumer: str,
    at: Span,
    /,
    source: str = "CPU:0",
    target: str = "GPU:0",
    *,
    edge: int = 1,
    kind: str = "_Send",
) -> Event:
    """A tensor leaves for an op on another device; `kind` may be `_HostSend`, `_HostRecv`."""
    key = f"{device(source)};9b7f3a2c11d0e4f5;{device(target)};edge_{edge}_{producer};0:0"
    return event(
        f"{producer}/_{edge}:{kind}",
        at,
        display_name=kind,
        stats={"from": ref(producer), "to": ref(consumer), "key": ref(key)},
    )


def eager_send(at: Span, /, source: str, target: str, *, argument: int = 0) -> Event:
    """An input of an eager op that must change device, spelled out in the event's name."""
    return event(f"_Send input {argument} from {device(source)} to {device(target)}", at)


def launch(
    at: Span, /, correlation: int, api: str = "cuLaunchKernel", *, number: int = 0, **stats: Value
) -> Event:
    """A call of the GPU's driver, linked by its correlation to what it set off on GPU `number`."""
    return event(
        api,
        at,
        device_id=uint(number),
        correlation_id=uint(correlation),
        context_id="$$1",
        stats=stats,
    )


def allocation(
    requested: int,
    at: Span,
    /,
    op: str = "",
    *,
    allocator: str = "GPU_0_bfc",
    address: int = 0x7F00_0000_0000,
    in_use: int | None = None,
    available: int = 10**10,
    peak: int | None = None,
    type: int = 1,
    shape: str = "[]",
    region: str = "output",
) -> Event:
    """An allocation, in steps of 256 bytes; `in_use` and `peak` include it."""
    in_use = -(-requested // 256) * 256 if in_use is None else in_use
    peak = in_use if peak is None else peak
    stats = _memory(requested, allocator, (address, in_use, available, peak))
    stats |= {"tf_op": ref(op), "region_type": ref(region), "data_type": type, "shape": ref(shape)}
    return event("MemoryAllocation", at, stats=stats)


def deallocation(
    requested: int,
    at: Span,
    /,
    *,
    allocator: str = "GPU_0_bfc",
    address: int = 0x7F00_0000_0000,
    in_use: int = 0,
    available: int = 10**10,
    peak: int = 0,
) -> Event:
    """A deallocation, which names no op."""
    stats = _memory(requested, allocator, (address, in_use, available, peak))
    return event("MemoryDeallocation", at, stats=stats, data_type=0)


def _memory(requested: int, allocator: str, numbers: tuple[int, ...]) -> dict[str, Value]:
    address, in_use, available, peak = numbers
    return {
        "allocator_name": ref(allocator),
        "bytes_reserved": 0,
        "bytes_allocated": in_use,
        "bytes_available": available,
        "fragmentation": 0.0,
        "peak_bytes_in_use": peak,
        "requested_bytes": requested,
        "allocation_bytes": -(-requested // 256) * 256,
        "addr": address,
    }


# ------------------------------------------------------------- events of a GPU


def kernel(name: str, at: Span, /, op: str = "", *, correlation: int = 0, **stats: Value) -> Event:
    """A kernel; `op` is `<op name>:<OpType>`, empty for a kernel that names none."""
    return event(
        name,
        at,
        stats={
            "context_id": "$$1",
            "correlation_id": uint(correlation),
            "kernel_details": ref(
                "regs:32 static_shared:0 dynamic_shared:0 grid:1,1,1 block:256,1,1 occ_pct:100"
            ),
            **({"tf_op": ref(op)} if op else {}),
            **stats,
        },
    )


def xla_kernel(
    name: str,
    at: Span,
    /,
    hlo_op: str,
    *,
    module: str = "cluster_0",
    op: str = "",
    correlation: int = 0,
    **stats: Value,
) -> Event:
    """A kernel that XLA made; `op` is the op name that the HLO instruction keeps."""
    return kernel(
        name,
        at,
        op="XlaModule:",
        correlation=correlation,
        hlo_op=ref(hlo_op),
        hlo_module=ref(module),
        program_id=1,
        **({"name": ref(op)} if op else {}),
        **stats,
    )


_COPY_KINDS: Final = {
    "H2D": ("pinned", "device"),
    "D2H": ("device", "pinned"),
    "D2D": ("device", "device"),
    "P2P": ("device", "device"),
}


def copy(
    direction: str,
    size: int,
    at: Span,
    /,
    op: str = "",
    *,
    source: str = "",
    target: str = "",
    correlation: int = 0,
    asynchronous: bool = True,
    number: int = 0,
    **stats: Value,
) -> Event:
    """A copy of `size` bytes, `H2D`, `D2H`, `D2D` or `P2P`, on a GPU's stream.

    `op` is what it was made for, `<op name>:<OpType>`; `source` and `target` are kinds of memory:
    `pinned` (the host's, if not said), `pageable`, `device`; `asynchronous` says that the host went
    on; `number` is the GPU's.
    """
    kinds = _COPY_KINDS[direction]
    details = (
        f"kind_src:{source or kinds[0]} kind_dst:{target or kinds[1]} "
        f"size:{size} dest:{number} async:{int(asynchronous)}"
    )
    return event(
        f"Memcpy{direction}",
        at,
        stats={
            "context_id": "$$1",
            "correlation_id": uint(correlation),
            "memcpy_details": ref(details),
            **({"tf_op": ref(op)} if op else {}),
            **stats,
        },
    )


# ------------------------------------------------ files of TensorFlow 2.2 to 2.5

STEPS_LINE = -559038737  # the fixed id of a derived line; signed, as the files have it


def old_op(name: str, type: str, at: Span, /, *, eager: bool = False, **stats: Value) -> Event:
    """An op on the host; eager ops leave such an event too, within `old_eager`."""
    return event(f"{name}:{type}", at, display_name=type, is_eager=int(eager), stats=stats)


def old_eager(type: str, at: Span, /) -> Event:
    """An eager op: the runtime's events, and `X:X` within."""
    return event(f"EagerExecute: {type}", at)(
        event(f"EagerLocalExecute: {type}", at)(
            event("EagerKernelExecute", at)(old_op(type, type, at, eager=True))
        )
    )


def old_kernel(
    name: str,
    at: Span,
    /,
    op: str = "",
    *,
    correlation: int = 0,
    eager: bool = False,
    **stats: Value,
) -> Event:
    """A kernel; `op` is `<op name>:<OpType>`."""
    details = ref("regs:32 shm:0 grid:1,1,1 block:256,1,1")
    return event(
        name,
        at,
        stats={
            "correlation_id": uint(correlation),
            "context_id": "$$1",
            "kernel_details": details,
            **_annotated(op),
            "is_eager": int(eager),
            **stats,
        },
    )


def old_copy(
    direction: str,
    size: int,
    at: Span,
    /,
    op: str = "",
    *,
    producer: str = "",
    consumer: str = "",
    edge: int = 1,
    correlation: int = 0,
    number: int = 0,
) -> Event:
    """A copy of `size` bytes, `H2D` and so on.

    With a `producer` it belongs to a `_Send` or `_HostRecv`; without an `op` it is the copy of a
    tensor to numpy, which names nothing.
    """
    if producer:
        told = {
            "annotation": ref(
                f"{op}#from={producer},to={consumer}#::#edge_name=edge_{edge}_{producer}#"
            ),
            "edge_name": ref(f"edge_{edge}_{producer}"),
            "from": ref(producer),
            "to": ref(consumer),
            "level 0": ref(op),
        }
    elif op:
        told = _annotated(op)
    else:
        told = {"annotation": ref("#edge_name=copy#"), "edge_name": ref("copy"), "level 0": ref("")}
    return event(
        f"Memcpy{direction}",
        at,
        stats={
            "correlation_id": uint(correlation),
            "context_id": "$$1",
            "memcpy_details": f"size:{size} dest:{number} async:1",
            **told,
            "is_eager": 0,
        },
    )


def _annotated(op: str) -> dict[str, ref]:
    return {"annotation": ref(op), "level 0": ref(op)} if op else {}


def old_steps(*steps: tuple[str, Span]) -> Line:
    """The derived line `Steps`: names such as `train 500`, and spans."""
    return line("Steps", id=STEPS_LINE)(
        event(str(number), at, step_name=ref(name)) for number, (name, at) in enumerate(steps)
    )

"""Records the origin of a requested device: code, a variable, a tensor, or the machine.

`tf.device(v.device)` requests the device of `v`, which may differ on another machine. So while the
recorder is installed, `.device` returns a different string object for each origin, and TensorFlow
passes that object on until it enters the scope.

A tensor is on the device of the op that created it, so each tensor records its op. No op creates
constants or `.cpu()` copies. Constants are on the device of their scope (see `scopes`).

Strategies such as `MirroredStrategy()` use the machine's GPUs, or the CPU if there are none.
Devices passed to a strategy, and the hosts of devices, count as named in code.
"""

from __future__ import annotations

import importlib
import linecache
from contextlib import suppress
from functools import partial
from typing import Any, List, Optional, Tuple

from .frames import Frame, FramePool
from .hooks import RecorderPart, followed

# Origins other than the number of a resource; see `Scope` in capture_file/document.
UNKNOWN = -1
MACHINE = -2
OP = -3  # less the number of a signature
# Attribute of a graph's op whose device was copied from another op: the device and its origin.
_COPIED = "_traceanalyzer_copied"
_MOST = 100_000  # distinct device texts kept
_LINES_AROUND = 3  # of a library's scope, in which its code may spell out the CPU
_DISTRIBUTE = (  # modules
    *("distribute_lib", "device_util", "mirrored_strategy", "collective_all_reduce_strategy"),
)
_HOST_DTYPES = (3, 7)  # int32 and string, in types.proto: mostly in host memory, on a GPU too

# The requested device; the number of the frame that requests it, or -1; the device's origin.
Scope = Tuple[str, int, Optional[int]]


def origin_of_outputs(number: int, scopes: list[Any]) -> int | None:
    """Return the device origin of an op's outputs, given its signature number and scopes.

    If the innermost scope requests the device of another object, return that scope's origin, so
    that a loop that requests the device of its own results does not get a new origin each time.
    """
    around = scopes[0][2] if scopes else None
    return OP - number if around is None else around


def note(result: Any, origin: int | None, tensor_type: type) -> None:
    """Tag each tensor that an op or call returned with the origin of its device."""
    for each in result if isinstance(result, (list, tuple)) else (result,):
        if isinstance(each, tensor_type):
            each._traceanalyzer_origin = origin  # type: ignore[attr-defined]


class Locations(List[Any]):
    """TensorFlow's list of an op's scopes, and the lines that opened them, innermost first."""

    frames: tuple[Scope, ...] = ()


def locations(op: Any) -> tuple[Scope, ...]:
    """Return the device scopes of a graph's op, innermost first."""
    copied = getattr(op, _COPIED, None)
    if copied is not None and copied[1] is not None:
        return ((copied[0], -1, copied[1]),)
    found = getattr(op, "_device_code_locations", None)
    if isinstance(found, Locations):
        return found.frames
    # Of an op that was made before the recorder was installed.
    given = [str(place.obj) for place in found or ()]
    return tuple((name, -1, UNKNOWN if is_cpu_in_full(name) else None) for name in given)


class Origins(RecorderPart):
    def __init__(self, frames: FramePool) -> None:
        super().__init__()
        self.resource_of: dict[int, int] = {}  # by the id of a handle: its resource's number
        self._frames = frames
        self._texts: dict[tuple[str, int | None], str] = {}
        self._origins: dict[int, int | None] = {}  # by the id of a text, which is kept
        self._by_line: dict[int, int | None] = {}  # by the number of a line

    def install(self) -> None:
        ops = importlib.import_module("tensorflow.python.framework.ops")
        tensor, operation = ops.EagerTensor, ops.Operation
        for owner, name, named in (
            (tensor, "device", self._of_tensor),
            (tensor, "backing_device", partial(self._of_tensor, backing=True)),
            (operation, "device", self._of_operation),
        ):
            original = getattr(owner, name)
            read = followed(original.__get__, named)
            self.replace(owner, name, property(read, doc=original.__doc__))
        symbolic = getattr(ops, "SymbolicTensor", None)  # from 2.14 on; it asks its op in C++
        if symbolic is not None:
            of_op = property(lambda tensor: tensor.op.device, doc=symbolic.device.__doc__)
            self.replace(symbolic, "device", of_op)
        self.after(operation, "_set_device", self._device_set)
        self.after(tensor, "cpu", self._copied)
        saving = importlib.import_module("tensorflow.python.training.saving.saveable_object_util")
        self.after(saving, "set_cpu0", self.of_host)

    def of(self, requested: Any, opened: int) -> int | None:
        """Return the origin of a scope's device, given the number of the line that opened it.

        An origin is a resource's number, `OP` minus the number of a tensor's signature, `UNKNOWN`
        for another object, `MACHINE` for the machine's first device, or None if the device is
        named in code. `requested` must be the same object that was passed to the scope.
        """
        if id(requested) in self._origins:
            return self._origins[id(requested)]
        if not is_cpu_in_full(requested):
            return None
        if opened not in self._by_line:
            found: int | None = UNKNOWN
            with suppress(Exception):
                found = _of_line(self._frames.frame(opened))
            self._by_line[opened] = found
        return self._by_line[opened]

    def named(self, name: str, origin: int | None) -> str:
        """Return the device's name as a string object that identifies this origin."""
        found = self._texts.get((name, origin))
        if found is None:
            if len(self._texts) >= _MOST:
                return name
            found = "".join((name[:1], name[1:]))  # equal, and another object
            found = self._texts.setdefault((name, origin), found)
            self._origins[id(found)] = origin
        return found

    def of_host(self, name: str, *_: Any, **__: Any) -> str:
        """Return the name of a device's host, which counts as named in code."""
        return self.named(name, None)

    def completed(self, found: str, d: Any, *_: Any, **__: Any) -> str:
        """Return a full device name with its origin. Partial names count as named in code."""
        given = getattr(d, "name", d)
        is_known = id(given) in self._origins or not is_cpu_in_full(given)
        if is_known and "cpu" in str(given).lower():
            return self.named(found, self._origins.get(id(given)))
        return found

    def _of_tensor(self, name: str, tensor: Any, *, backing: bool = False) -> str:
        if not is_cpu_in_full(name):
            return name
        noted = getattr(tensor, "_traceanalyzer_origin", UNKNOWN)
        if backing and noted is not None and tensor._datatype_enum() in _HOST_DTYPES:
            noted = None if noted == MACHINE else UNKNOWN
        return self.named(name, self.resource_of.get(tensor._id, noted))

    def _of_operation(self, name: str, operation: Any) -> str:
        """Return the device name of a graph op, with the origin of its innermost CPU scope."""
        if not is_cpu_in_full(name):
            return name
        copied = getattr(operation, _COPIED, None)
        if copied is not None:
            return self.named(name, copied[1])
        requested = (origin for name, _, origin in locations(operation) if is_cpu_in_full(name))
        return self.named(name, next(requested, UNKNOWN))

    def _device_set(self, _: None, operation: Any, device: Any) -> None:
        if id(device) in self._origins:
            setattr(operation, _COPIED, (device, self._origins[id(device)]))

    @staticmethod
    def _copied(result: Any, tensor: Any) -> Any:
        if result is not tensor:
            result._traceanalyzer_origin = None
        return result


def is_cpu_in_full(name: Any) -> bool:
    """Return whether this is the full name of a CPU, as `.device` returns it."""
    return isinstance(name, str) and name.startswith("/job:") and "/device:CPU:" in name


def _of_line(opened: Frame | None) -> int | None:
    """Return None (named in code) if the code around a line names the CPU, else `UNKNOWN`."""
    if opened is None:
        return UNKNOWN
    file, line, _, is_user = opened
    if is_user:
        spelt = any("device:cpu" in text.lower() for text in linecache.getlines(file))
    else:
        texts = (linecache.getline(file, line + k) for k in range(-_LINES_AROUND, _LINES_AROUND))
        spelt = "cpu" in "".join(texts).lower()
    return None if spelt else UNKNOWN


class Strategies(RecorderPart):
    """Records strategies of `tf.distribute`, and the origins of their devices."""

    def __init__(self, origins: Origins) -> None:
        super().__init__()
        self.names: list[str] = []
        self._origins = origins

    def install(self) -> None:
        base, util, mirrored, collective = (
            importlib.import_module("tensorflow.python.distribute." + name) for name in _DISTRIBUTE
        )
        extended = collective.CollectiveAllReduceExtended
        self.after(base.StrategyBase, "__init__", self._made)
        self.after(mirrored, "all_local_devices", self._logical)
        self.after(util, "local_devices_from_num_gpus", self._all_of_machine)
        self.after(extended, "_initialize_local_devices", self._first_of_pair)
        self._workers()
        self.after(util, "canonicalize", self._origins.completed)
        self.after(util, "get_host_for_device", self._origins.of_host)

    def _made(self, _: None, strategy: Any, *__: Any, **___: Any) -> None:
        name = type(strategy).__name__
        # A program without a strategy has the default one.
        is_default = name.startswith("_DefaultDistributionStrategy")
        if not is_default and name not in self.names:
            self.names.append(name)

    def _workers(self) -> None:
        """Note the devices that a strategy with parameter servers chooses for its workers."""
        name = "tensorflow.python.distribute.parameter_server_strategy_v2"
        extended = importlib.import_module(name).ParameterServerStrategyV2Extended
        original = extended.worker_devices
        read = followed(original.__get__, lambda found, *_: self._all_of_machine(found))
        self.replace(extended, "worker_devices", property(read, doc=original.__doc__))

    def _logical(self, found: list[Any], *_: Any, **__: Any) -> list[Any]:
        return [d._replace(name=self._of_machine(d.name)) for d in found]

    def _all_of_machine(self, found: tuple[str, ...], *_: Any, **__: Any) -> tuple[str, ...]:
        return tuple(map(self._of_machine, found))

    def _first_of_pair(self, found: tuple[Any, Any], *_: Any, **__: Any) -> tuple[Any, Any]:
        return self._all_of_machine(found[0]), found[1]

    def _of_machine(self, name: str) -> str:
        return self._origins.named(name, MACHINE) if "CPU" in name else name

"""Whose device a requested device is.

`tf.device(v.device)` asks for the device of `v`, which is another one on another machine. So while
the recorder is in place, `.device` of tensors returns a text of its own for each owner: an ordinary
`str` that differs from equal ones by identity, which survives until TensorFlow enters the scope.

A tensor is where the op that made it ran. Which op that was is noted on the tensor itself, so that
it lasts as long as the tensor. Of tensors that no op makes, constants are where the scope around
them asks for (see `scopes`), and `.cpu()` copies are on the CPU.

`MirroredStrategy()` and the like take the GPUs there are, and the CPU where there is none: that is
a device of the machine, not of the program. The devices that a program gives to a strategy, and the
hosts of devices, are spelt out.
"""

from __future__ import annotations

import importlib
import linecache
from functools import partial
from typing import TYPE_CHECKING, Any, List, Optional, Tuple

from .hooks import Part, followed

if TYPE_CHECKING:
    from .frames import Frame, FramePool

# Origins that are no resource's number; see `Scope` in capture_file/document.
UNKNOWN = -1
MACHINE = -2
OP = -3  # less the number of a signature
# On an op of a graph that has the device of what it is colocated with: that, and whose it is.
_COPIED = "_traceanalyzer_copied"
_MOST = 100_000  # distinct device texts kept
_LINES_AROUND = 3  # in which a library's code that asks for the CPU has made the name
_DISTRIBUTE = "tensorflow.python.distribute."
_HOST_DTYPES = (3, 7)  # int32 and string, in types.proto: mostly in host memory, on a GPU too

# The device requested; the number of the frame that asks for it, or -1; whose device it is.
Scope = Tuple[str, int, Optional[int]]


def origin_of_outputs(number: int, scopes: list[Any]) -> int | None:
    """Return whose device the tensors have that the op of a signature makes.

    If the innermost scope asks for the device of something else, that is it: a loop that asks for
    the device of its own results would have another origin each time.
    """
    around = scopes[0][2] if scopes else None
    return OP - number if around is None else around


def note(result: Any, origin: int | None, tensor_type: type) -> None:
    """Note whose device the tensors have that an op or a call returned."""
    for each in result if isinstance(result, (list, tuple)) else (result,):
        if isinstance(each, tensor_type):
            each._traceanalyzer_origin = origin  # type: ignore[attr-defined]


class Locations(List[Any]):
    """TensorFlow's list of an op's scopes, with the lines that opened them, innermost first."""

    frames: tuple[Scope, ...] = ()


def locations(op: Any) -> tuple[Scope, ...]:
    """Return the device scopes that an op of a graph was made in, innermost first."""
    copied = getattr(op, _COPIED, None)
    if copied is not None and copied[1] is not None:
        return ((copied[0], -1, copied[1]),)
    found = getattr(op, "_device_code_locations", None)
    if isinstance(found, Locations):
        return found.frames
    return tuple((str(place.obj), -1, None) for place in found or ())


class Origins(Part):
    """Knows whose device is requested; see the module."""

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
        """Return whose device the scope asks for that a line opened.

        That is the number of a resource; `OP` less the number of the signature that made a tensor;
        `UNKNOWN` for something else's; `MACHINE` for the first device there is; None where it is
        spelt out. `requested` is the very object that the scope was given.
        """
        if self.is_known(requested):
            return self.known(requested)
        if not is_cpu_in_full(requested):
            return None
        if opened not in self._by_line:
            try:
                found = _of_line(self._frames.frame(opened))
            except Exception:
                found = UNKNOWN
            self._by_line[opened] = found
        return self._by_line[opened]

    def is_known(self, name: Any) -> bool:
        """Return whether a text is one that `named` returned: the very object."""
        return id(name) in self._origins

    def known(self, name: Any) -> int | None:
        """Return whose device such a text is, None for any other."""
        return self._origins.get(id(name))

    def named(self, name: str, origin: int | None) -> str:
        """Return the text for a device of this origin."""
        found = self._texts.get((name, origin))
        if found is None:
            if len(self._texts) >= _MOST:
                return name
            found = "".join((name[:1], name[1:]))  # equal, and another object
            found = self._texts.setdefault((name, origin), found)
            self._origins[id(found)] = origin
        return found

    def of_host(self, name: str, *_: Any, **__: Any) -> str:
        """Return the text for the host of a device: that is spelt out."""
        return self.named(name, None)

    def _of_tensor(self, name: str, tensor: Any, *, backing: bool = False) -> str:
        if not is_cpu_in_full(name):
            return name
        noted = getattr(tensor, "_traceanalyzer_origin", UNKNOWN)
        if backing and noted is not None and tensor._datatype_enum() in _HOST_DTYPES:
            noted = None if noted == MACHINE else UNKNOWN
        return self.named(name, self.resource_of.get(tensor._id, noted))

    def _of_operation(self, name: str, operation: Any) -> str:
        """Name whose device an op of a graph has: that of the innermost scope which names one."""
        if not is_cpu_in_full(name):
            return name
        copied = getattr(operation, _COPIED, None)
        if copied is not None:
            return self.named(name, copied[1])
        requested = (origin for name, _, origin in locations(operation) if is_cpu_in_full(name))
        return self.named(name, next(requested, UNKNOWN))

    def _device_set(self, _: None, operation: Any, device: Any) -> None:
        if self.is_known(device):
            setattr(operation, _COPIED, (device, self.known(device)))

    @staticmethod
    def _copied(result: Any, tensor: Any) -> Any:
        if result is not tensor:
            result._traceanalyzer_origin = None
        return result


def is_cpu_in_full(name: Any) -> bool:
    """Return whether a device is a CPU by its full name, as `.device` has it."""
    return isinstance(name, str) and name.startswith("/job:") and "/device:CPU:" in name


def _of_line(opened: Frame | None) -> int | None:
    """Return whose device a full name is that nobody is known to have read."""
    if opened is None:
        return UNKNOWN
    file, line, _, is_user = opened
    if is_user:
        spelt = any("device:cpu" in text.lower() for text in linecache.getlines(file))
    else:
        texts = (linecache.getline(file, line + k) for k in range(-_LINES_AROUND, _LINES_AROUND))
        spelt = "cpu" in "".join(texts).lower()
    return None if spelt else UNKNOWN


class Strategies(Part):
    """Notes the strategies of `tf.distribute`, and has the texts of their devices show whose."""

    def __init__(self, origins: Origins) -> None:
        super().__init__()
        self.names: list[str] = []
        self._origins = origins

    def install(self) -> None:
        base = importlib.import_module(_DISTRIBUTE + "distribute_lib").StrategyBase
        util = importlib.import_module(_DISTRIBUTE + "device_util")
        mirrored = importlib.import_module(_DISTRIBUTE + "mirrored_strategy")
        collective = importlib.import_module(_DISTRIBUTE + "collective_all_reduce_strategy")
        extended = collective.CollectiveAllReduceExtended
        self.after(base, "__init__", self._made)
        self.after(mirrored, "all_local_devices", self._logical)
        self.after(util, "local_devices_from_num_gpus", self._all_of_machine)
        self.after(extended, "_initialize_local_devices", self._first_of_pair)
        self.after(util, "canonicalize", self._canonicalized)
        self.after(util, "get_host_for_device", self._origins.of_host)

    def _made(self, _: None, strategy: Any, *__: Any, **___: Any) -> None:
        name = type(strategy).__name__
        # Programs that ask for no strategy have the default one.
        is_default = name.startswith("_DefaultDistributionStrategy")
        if not is_default and name not in self.names:
            self.names.append(name)

    def _logical(self, found: list[Any], *_: Any, **__: Any) -> list[Any]:
        return [d._replace(name=self._of_machine(d.name)) for d in found]

    def _all_of_machine(self, found: tuple[str, ...], *_: Any, **__: Any) -> tuple[str, ...]:
        return tuple(map(self._of_machine, found))

    def _first_of_pair(self, found: tuple[Any, Any], *_: Any, **__: Any) -> tuple[Any, Any]:
        return self._all_of_machine(found[0]), found[1]

    def _of_machine(self, name: str) -> str:
        return self._origins.named(name, MACHINE) if "CPU" in name else name

    def _canonicalized(self, found: str, d: Any, *_: Any, **__: Any) -> str:
        """Keep whose a device is when its name is completed; a part of one is spelt out."""
        given = getattr(d, "name", d)
        is_known = self._origins.is_known(given) or not is_cpu_in_full(given)
        if is_known and "cpu" in str(given).lower():
            return self._origins.named(found, self._origins.known(given))
        return found

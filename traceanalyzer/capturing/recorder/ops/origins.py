"""Whose device a requested device is.

`tf.device(v.device)` asks for the device of `v`, which is another one on another machine. So while
the recorder is in place, `.device` of tensors returns a text of its own for each owner: an ordinary
`str` that differs from equal ones by identity, which survives until TensorFlow enters the scope.

A tensor is where the op that made it ran. Which op that was is noted on the tensor itself, so that
it lasts as long as the tensor. Of tensors that no op makes, constants are where the scope around
them asks for, and `.cpu()` copies are on the CPU.

`MirroredStrategy()` and the like take the GPUs there are, and the CPU where there is none: that is
a device of the machine, not of the program. The devices that a program gives to a strategy, and the
hosts of devices, are spelt out.
"""

from __future__ import annotations

import importlib
import linecache
from typing import TYPE_CHECKING, Any, Callable

from ..process.hooks import Part, followed, hide_frame
from .scopes import COPIED, locations

if TYPE_CHECKING:
    from .frames import Frame, FramePool
    from .scopes import Scopes

# Origins that are no resource's number; see `Scope` in capture_file/document.
UNKNOWN = -1
MACHINE = -2
OP = -3  # less the number of a signature
_MOST = 100_000  # distinct device texts kept
_LINES_AROUND = 3  # in which a library's code that asks for the CPU has made the name
_DISTRIBUTE = "tensorflow.python.distribute."
_HOST_DTYPES = (3, 7)  # int32 and string, in types.proto: mostly in host memory, on a GPU too


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


def origin_of(tensor: Any, *, backing: bool) -> int | None:
    """Return whose device a tensor has, or, with `backing`, is in the memory of."""
    found: int | None = getattr(tensor, "_traceanalyzer_origin", UNKNOWN)
    if not backing or found is None or tensor._datatype_enum() not in _HOST_DTYPES:
        return found
    return None if found == MACHINE else UNKNOWN


class TensorOrigins(Part):
    """Notes whose device tensors have that no op makes."""

    def __init__(self, scopes: Scopes) -> None:
        super().__init__()
        self._scopes = scopes
        self._by_chain: dict[int, int | None] = {}

    def install(self) -> None:
        """Replace what makes such tensors."""
        constants = importlib.import_module("tensorflow.python.framework.constant_op")
        tensor = importlib.import_module("tensorflow.python.framework.ops").EagerTensor
        convert = self._convert(constants.convert_to_eager_tensor)
        self.replace(constants, "convert_to_eager_tensor", convert)
        self.after(tensor, "cpu", self._copied)

    def _convert(self, original: Callable[..., Any]) -> Callable[..., Any]:
        local, by_chain = self._scopes.local, self._by_chain

        # Rather than `followed`: each number in eager code passes here, recorded or not.
        def convert(value: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                result = original(value, *args, **kwargs)
            except BaseException as error:
                hide_frame(error)
                raise
            if result is not value:
                chain = local.chain
                if chain not in by_chain:
                    by_chain[chain] = self._of_scope()
                result._traceanalyzer_origin = by_chain[chain]
            return result

        return convert

    @staticmethod
    def _copied(result: Any, tensor: Any) -> Any:
        if result is not tensor:
            result._traceanalyzer_origin = None
        return result

    def _of_scope(self) -> int | None:
        for requested, _, origin in self._scopes.opened():
            if origin is not None or "cpu" in requested.lower():
                return origin
        return MACHINE


class Origins(Part):
    """Knows whose device is requested; see the module."""

    def __init__(self, resource_of: Callable[[Any], int]) -> None:
        """Prepare; `resource_of` returns the number of a tensor's resource, or -1."""
        super().__init__()
        self._resource_of = resource_of
        self._texts: dict[tuple[str, int | None], str] = {}
        self._origins: dict[int, int | None] = {}  # by the id of a text, which is kept
        self._by_line: dict[int, int | None] = {}  # by the number of a line

    def install(self) -> None:
        """Replace what TensorFlow's code reads a device from."""
        ops = importlib.import_module("tensorflow.python.framework.ops")
        tensor, operation = ops.EagerTensor, ops.Operation
        for owner, name, named in (
            (tensor, "device", self._of_tensor),
            (tensor, "backing_device", self._of_memory),
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
        saving = importlib.import_module("tensorflow.python.training.saving.saveable_object_util")
        self.after(saving, "set_cpu0", self.of_host)

    def of(self, requested: Any, frames: FramePool, opened: int) -> int | None:
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
                found = _of_line(frames.frame(opened))
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
        resource = self._resource_of(tensor)
        return self.named(name, resource if resource >= 0 else origin_of(tensor, backing=backing))

    def _of_memory(self, name: str, tensor: Any) -> str:
        return self._of_tensor(name, tensor, backing=True)

    def _of_operation(self, name: str, operation: Any) -> str:
        return self.named(name, _origin_of_operation(operation)) if is_cpu_in_full(name) else name

    def _device_set(self, _: None, operation: Any, device: Any) -> None:
        if self.is_known(device):
            setattr(operation, COPIED, (device, self.known(device)))


def is_cpu_in_full(name: Any) -> bool:
    """Return whether a device is a CPU by its full name, as `.device` has it."""
    return isinstance(name, str) and name.startswith("/job:") and "/device:CPU:" in name


def _origin_of_operation(operation: Any) -> int | None:
    """Return whose device an op of a graph has: that of the innermost scope which names one."""
    copied = getattr(operation, COPIED, None)
    if copied is not None:
        return copied[1]  # type: ignore[no-any-return]
    requested = (origin for name, _, origin in locations(operation) if is_cpu_in_full(name))
    return next(requested, UNKNOWN)


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


class StrategyDevices(Part):
    """Has the texts of strategies' devices show whose they are."""

    def __init__(self, origins: Origins) -> None:
        super().__init__()
        self._origins = origins

    def install(self) -> None:
        """Replace what strategies find their devices by."""
        util = importlib.import_module(_DISTRIBUTE + "device_util")
        mirrored = importlib.import_module(_DISTRIBUTE + "mirrored_strategy")
        collective = importlib.import_module(_DISTRIBUTE + "collective_all_reduce_strategy")
        extended = collective.CollectiveAllReduceExtended
        self.after(mirrored, "all_local_devices", self._logical)
        self.after(util, "local_devices_from_num_gpus", self._all_of_machine)
        self.after(extended, "_initialize_local_devices", self._first_of_pair)
        self.after(util, "canonicalize", self._canonicalized)
        self.after(util, "get_host_for_device", self._origins.of_host)

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

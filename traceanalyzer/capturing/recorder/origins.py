"""Whose device a requested device is.

`tf.device(v.device)` asks for the device of `v`, which is another one on another machine. So while
the recorder is in place, `.device` of tensors returns a text of its own for each owner: an ordinary
`str`, told from equal ones by its identity, which survives until TensorFlow enters the scope.
"""

from __future__ import annotations

import importlib
import linecache
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple

from .patches import Patches
from .scopes import COPIED, locations
from .tensor_origins import MACHINE, UNKNOWN, origin_of
from .tracebacks import unseen

if TYPE_CHECKING:
    from .frames import Frame, FramePool

__all__ = ["MACHINE", "UNKNOWN", "Origins", "is_cpu_in_full"]

_MOST = 100_000  # distinct device texts kept
_LINES_AROUND = 3  # in which a library's code that asks for the CPU has made the name


class Origins:
    """Tells whose device is asked for; see the module."""

    def __init__(self, resource_of: Callable[[Any], int]) -> None:
        """Prepare; nothing is replaced yet.

        Args:
            resource_of: Returns the number of the resource that a tensor is a handle of, or -1.
        """
        self._resource_of = resource_of
        self._texts: Dict[Tuple[str, Optional[int]], str] = {}
        self._origins: Dict[int, Optional[int]] = {}  # by the id of a text, which is kept
        self._by_line: Dict[int, Optional[int]] = {}  # by the number of a line
        self._patches = Patches()

    def install(self) -> None:
        """Replace what TensorFlow's code reads a device from."""
        ops = importlib.import_module("tensorflow.python.framework.ops")
        tensor, operation = ops.EagerTensor, ops.Operation
        for name, backing in (("device", False), ("backing_device", True)):
            of_tensors = self._of_tensors(getattr(tensor, name), backing=backing)
            self._patches.replace(tensor, name, of_tensors)
        self._patches.replace(operation, "device", self._of_operations(operation.device))
        symbolic = getattr(ops, "SymbolicTensor", None)  # from 2.14 on; it asks its op in C++
        if symbolic is not None:
            of_op = property(lambda tensor: tensor.op.device, doc=symbolic.device.__doc__)
            self._patches.replace(symbolic, "device", of_op)
        set_device = self._after_set_device(operation._set_device)  # noqa: SLF001
        self._patches.replace(operation, "_set_device", set_device)
        saving = importlib.import_module("tensorflow.python.training.saving.saveable_object_util")
        self._patches.replace(saving, "set_cpu0", self._of_hosts(saving.set_cpu0))

    def uninstall(self) -> None:
        """Put everything back."""
        self._patches.undo()

    def of(self, asked: Any, frames: FramePool, opened: int) -> Optional[int]:  # noqa: ANN401
        """Return whose device a scope asks for.

        Args:
            asked: What it was given: the very object.
            frames: Where lines have their numbers.
            opened: The line that opened it, or -1.

        Returns:
            The number of a resource; `OP` less the number of the signature that made a tensor;
            `UNKNOWN` for something else's; `MACHINE` for the first device there is; None where a
            program or a library spells the device out.
        """
        if self.is_known(asked):
            return self.known(asked)
        if not is_cpu_in_full(asked):
            return None
        if opened not in self._by_line:
            try:
                found = _of_line(frames.frame(opened))
            except Exception:  # noqa: BLE001 - ours, not the program's: an unreadable source
                found = UNKNOWN
            self._by_line[opened] = found
        return self._by_line[opened]

    def is_known(self, name: Any) -> bool:  # noqa: ANN401 - what a scope is given
        """Tell whether a text is one that `named` returned: the very object."""
        return id(name) in self._origins

    def known(self, name: Any) -> Optional[int]:  # noqa: ANN401 - what a scope is given
        """Return whose device such a text is, None for any other."""
        return self._origins.get(id(name))

    def named(self, name: str, origin: Optional[int]) -> str:
        """Return the text that stands for a device of this origin."""
        found = self._texts.get((name, origin))
        if found is None:
            if len(self._texts) >= _MOST:
                return name
            found = "".join((name[:1], name[1:]))  # equal, and another object
            found = self._texts.setdefault((name, origin), found)
            self._origins[id(found)] = origin
        return found

    def _of_tensors(self, original: Any, *, backing: bool) -> property:  # noqa: ANN401 - a descriptor
        read, named, resource_of = original.__get__, self.named, self._resource_of

        def device(tensor: Any) -> str:  # noqa: ANN401
            with unseen:
                name: str = read(tensor)
            if not is_cpu_in_full(name):
                return name
            resource = resource_of(tensor)
            return named(name, resource if resource >= 0 else origin_of(tensor, backing=backing))

        return property(device, doc=original.__doc__)

    def _of_operations(self, original: Any) -> property:  # noqa: ANN401 - a descriptor
        read, named = original.__get__, self.named

        def device(operation: Any) -> str:  # noqa: ANN401
            with unseen:
                name: str = read(operation)
            if not is_cpu_in_full(name):
                return name
            return named(name, _of_operation(operation))

        return property(device, doc=original.__doc__)

    def _after_set_device(self, original: Callable[..., None]) -> Callable[..., None]:
        def set_device(operation: Any, device: Any) -> None:  # noqa: ANN401
            with unseen:
                original(operation, device)
            if self.is_known(device):
                setattr(operation, COPIED, (device, self.known(device)))

        return set_device

    def _of_hosts(self, original: Callable[..., str]) -> Callable[..., str]:
        def host(*args: Any, **kwargs: Any) -> str:  # noqa: ANN401
            with unseen:
                return self.named(original(*args, **kwargs), None)

        return host


def is_cpu_in_full(name: Any) -> bool:  # noqa: ANN401 - what a scope is given
    """Tell whether a device is a CPU by its full name, as `.device` has it."""
    return isinstance(name, str) and name.startswith("/job:") and "/device:CPU:" in name


def _of_operation(operation: Any) -> Optional[int]:  # noqa: ANN401
    """Return whose device an op of a graph has: that of the innermost scope which names one."""
    copied = getattr(operation, COPIED, None)
    if copied is not None:
        return copied[1]  # type: ignore[no-any-return]
    asked = (origin for name, _, origin in locations(operation) if is_cpu_in_full(name))
    return next(asked, UNKNOWN)


def _of_line(opened: Optional[Frame]) -> Optional[int]:
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

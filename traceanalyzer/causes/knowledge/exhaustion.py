"""Parses messages of ResourceExhaustedError: the size of the allocation, and the allocator."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from traceanalyzer.format import size_text
from traceanalyzer.placement.devices import device_text

# `OpKernelContext::allocate_tensor` (op_kernel.cc).
_TENSOR: Final = re.compile(
    r"OOM when allocating tensor with shape(?P<shape>\[[\d,]*\]) and type (?P<type>\w+) on "
    r"(?P<device>\S+) by allocator (?P<allocator>\S+)"
)
# XLA's programs (xla/pjrt and xla/service/gpu) name bytes: `8589934592 bytes`, or `8.00GiB`.
_SOME_BYTES: Final = re.compile(
    r"[Oo]ut of memory (?:while )?trying to allocate (?P<size>\d+(?:\.\d+)?) ?"
    r"(?P<unit>bytes|[KMGT]i?B|B)"
)
# The same error reports full disks, too many open files, and messages that are too long.
_NOT_MEMORY: Final = re.compile(
    r"no space left on device|too many open files|larger than max|quota|disk", re.IGNORECASE
)
_UNITS: Final = {
    "bytes": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
}  # fmt: skip
_DTYPE_BYTES: Final = {
    "half": 2, "bfloat16": 2, "float": 4, "double": 8, "complex64": 8, "complex128": 16,
    "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8,
    "uint64": 8, "bool": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhaustion:
    """An allocation that failed; "" or None for facts that the message does not contain."""

    #: Whether memory ran out, and not a disk or the like.
    is_of_memory: bool
    #: The tensor, such as `float[8,8]`.
    tensor: str = ""
    bytes: int | None = None
    device: str = ""
    allocator: str = ""

    @property
    def is_on_host(self) -> bool:
        """Whether host memory ran out, not a GPU's."""
        return "/device:CPU:" in self.device

    @property
    def attempt(self) -> str:
        """What TensorFlow could not do, after "TensorFlow"."""
        if not self.tensor and self.bytes is None:
            return "could not allocate memory for an op"
        size = "" if self.bytes is None else size_text(self.bytes)
        what = f"{self.tensor} ({size})" if self.tensor and size else self.tensor or size
        return f"could not allocate {what}" + (
            f" on {device_text(self.device)}" if self.device else ""
        )


def exhaustion(message: str) -> Exhaustion:
    """Read the message of a ResourceExhaustedError."""
    tensor = _TENSOR.search(message)
    if tensor is not None:
        return Exhaustion(
            is_of_memory=True,
            tensor=f"{tensor['type']}{tensor['shape']}",
            bytes=_tensor_bytes(tensor["type"], tensor["shape"]),
            device=tensor["device"],
            allocator=tensor["allocator"],
        )
    some = _SOME_BYTES.search(message)
    if some is not None:
        size = float(some["size"]) * _UNITS[some["unit"]]
        return Exhaustion(is_of_memory=True, bytes=int(size))
    return Exhaustion(is_of_memory=_NOT_MEMORY.search(message) is None)


def _tensor_bytes(dtype: str, shape: str) -> int | None:
    size = _DTYPE_BYTES.get(dtype)
    for extent in shape.strip("[]").split(","):
        size = size * int(extent) if size is not None and extent else size
    return size

"""Parses full and partial device names, and sorts a machine's devices as TensorFlow does.

Names are parsed and merged as in TensorFlow's `DeviceNameUtils`
(`core/util/device_name_utils.cc`, 2.12 to 2.21).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from traceanalyzer.capture_file.document import CaptureFile

CPU: Final = "CPU"
GPU: Final = "GPU"
# The recorded device of `tf.device(None)`, inside which no outer scope counts.
NO_SCOPE: Final = frozenset({"", "None"})
# Types with a higher priority come first (the factories' priorities: GPU 210, CPU 60).
_ORDER: Final = (GPU, CPU)

_PART = re.compile(
    r"/(?:job:(?P<job>[A-Za-z]\w*|\*)|replica:(?P<replica>\d+|\*)|task:(?P<task>\d+|\*)"
    r"|device:(?P<type>[A-Za-z]\w*|\*)(?::(?P<id>\d+|\*))?"
    r"|(?P<short>cpu|CPU|gpu|GPU):(?P<short_id>\d+|\*))",
    re.ASCII,
)
LOCAL: Final = "/job:localhost/replica:0/task:0"
_ADDRESS: Final = ("job", "replica", "task")
_LAST_PART: Final = re.compile(
    r"(?:^|/)(?:device:)?(?!(?:job|replica|task):)([A-Za-z]\w*)(?::(?:\d+|\*))?$", re.IGNORECASE
)


class DeviceNameError(ValueError):
    """Raised if a string is not a valid device name."""


class DeviceConflictError(ValueError):
    """Raised if nodes that must share a device cannot be placed together."""


class DeviceName(NamedTuple):
    """A device or a request for a device. In a request, None allows any value."""

    job: str | None = None  #: job of the cluster, `localhost` outside a cluster
    replica: int | None = None
    task: int | None = None
    type: str | None = None
    id: int | None = None

    def __str__(self) -> str:
        """Return the name in TensorFlow's notation, or "" if it requests nothing."""
        address = zip(_ADDRESS, self[:3], strict=True)
        text = "".join(f"/{part}:{at}" for part, at in address if at is not None)
        if self.type is None and self.id is None:
            return text
        return f"{text}/device:{self.type or '*'}:{'*' if self.id is None else self.id}"

    def admits(self, device: DeviceName) -> bool:
        """Return whether a device meets this request."""
        return all(mine is None or mine == its for mine, its in zip(self, device, strict=True))

    def differing(self, other: DeviceName) -> set[str]:
        """Return the parts that are set in both names but differ (`AreCompatibleDevNames`)."""
        parts = zip(self._fields, self, other, strict=True)
        return {part for part, mine, its in parts if None not in {mine, its} and mine != its}

    def merged(self, other: DeviceName, *, soft: bool = False) -> DeviceName:
        """Combine two requests (`MergeDevNames`). If `soft`, drop types that differ."""
        if self == other:
            return self
        both, differing = other.overridden(self), self.differing(other)
        if differing and not (soft and differing <= {"type", "id"}):
            msg = f"{self} and {other} cannot both be satisfied"
            raise DeviceConflictError(msg)
        if "type" in differing:
            return both._replace(type=None, id=None)  # the number goes with the type
        return both._replace(id=None) if differing else both

    def overridden(self, other: DeviceName) -> DeviceName:
        """Replace the parts of this name that `other` sets (`EnsureSpecification`)."""
        if other is ANYWHERE:
            return self
        return self._replace(**{k: its for k, its in other._asdict().items() if its is not None})

    def softened(self, *kept: DeviceName) -> DeviceName:
        """Return this name without its type and number, unless one of `kept` sets them."""
        return self._replace(
            type=self.type if any(k.type is not None for k in kept) else None,
            id=self.id if any(k.id is not None for k in kept) else None,
        )


ANYWHERE: Final = DeviceName()


@lru_cache(maxsize=4096)
def parse_device(text: str) -> DeviceName:
    """Parse a full, partial, or short (`/gpu:0`) name, as `DeviceNameUtils::ParseFullName` does."""
    if text == "/":
        return ANYWHERE
    found: dict[str, str | None] = {}
    at = 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            msg = f"Malformed device specification {text!r}"
            raise DeviceNameError(msg)
        given = part.groupdict()
        if given["short"] is not None:
            given |= {"type": given["short"].upper(), "id": given["short_id"]}
        if given["type"] is not None:  # the last type counts, with its number
            found |= {"type": given["type"], "id": given["id"]}
        found |= {key: given[key] for key in _ADDRESS if given[key] is not None}
        at = part.end()
    known = {key: value for key, value in found.items() if value not in {None, "*"}}
    numbers = {key: int(known[key] or 0) for key in ("replica", "task", "id") if key in known}
    name = DeviceName(job=known.get("job"), type=known.get("type"), **numbers)
    return ANYWHERE if name == ANYWHERE else name


def is_of_type(device: str, device_type: str) -> bool:
    """Return whether a device is known and has the given type."""
    return bool(device) and parse_device(device).type == device_type


def type_in_scope(device: str) -> str | None:
    """Return the device type that a scope requests; accept short forms (`cpu:0`, `CPU`)."""
    match = _LAST_PART.search(device)  # `DeviceSpecV2.from_string` (framework/device_spec.py)
    return match[1].upper() if match else None


def asks_for_cpu(device: str) -> bool:
    """Return whether a request names a CPU, in full or in a short form such as `cpu:0`."""
    return type_in_scope(device) == CPU


def device_text(device: str) -> str:
    """Return a device name without the local job, replica, and task, such as `/device:GPU:0`."""
    return device.removeprefix(LOCAL)


@dataclass(frozen=True, slots=True)
class Machine:
    """The devices on which a program can be placed."""

    #: Full names in `DeviceSet::SortPrioritizedDeviceVector`'s order: GPUs first, then sorted.
    devices: tuple[str, ...]

    @classmethod
    def of(cls, devices: Iterable[str]) -> Machine:
        """Return a machine with these devices, except those that run no ops, such as XLA's."""
        types = {device: parse_device(device).type for device in devices}
        found = [(_ORDER.index(kind), d) for d, kind in types.items() if kind in _ORDER]
        return cls(tuple(device for _, device in sorted(found)))

    @classmethod
    def local(cls, *, gpus: int = 0, cpus: int = 1) -> Machine:
        """Return a machine that is not part of a cluster and has these numbers of GPUs and CPUs."""
        numbers = [*((GPU, at) for at in range(gpus)), *((CPU, at) for at in range(cpus))]
        return cls.of(f"{LOCAL}/device:{kind}:{number}" for kind, number in numbers)

    @property
    def types(self) -> tuple[str, ...]:
        """The types of the machine's devices, in TensorFlow's order."""
        return tuple(t for t in _ORDER if any(is_of_type(device, t) for device in self.devices))

    @property
    def host(self) -> str:
        """The machine's first CPU, whose memory contains the tensors that must be on the host."""
        return next(device for device in self.devices if is_of_type(device, CPU))

    def matching(self, requested: DeviceName) -> Sequence[str]:
        """Return the machine's devices that meet a request."""
        if requested is ANYWHERE:
            return self.devices
        return [d for d in self.devices if requested.admits(parse_device(d))]


def machine_of(capture_file: CaptureFile) -> Machine:
    """Return a captured program's machine, based on its device list or its nodes' devices."""
    logical = (capture_file.devices or {}).get("logical")
    listed = logical if isinstance(logical, list) else []
    names = [str(each.get("name")) for each in listed if isinstance(each, dict)]
    full = [name if name.startswith("/job:") else LOCAL + name for name in names]
    machine = Machine.of(filter(_is_device, full))
    if CPU not in machine.types:
        graphs = [each for function in capture_file.functions for each in function.instances]
        used = {name for graph in graphs for name in filter(_is_device, graph.assigned)}
        used = {name for name in used if parse_device(name).type in _ORDER}
        hosts = {f"{name.rpartition('/device:')[0]}/device:CPU:0" for name in used}
        machine = Machine.of(used | hosts)
    return machine if CPU in machine.types else Machine.local()


def _is_device(text: str) -> bool:
    try:
        parse_device(text)
    except DeviceNameError:
        return False
    return True


def with_gpus(machine: Machine, count: int = 1) -> Machine:
    """Return a copy of the machine with `count` GPUs."""
    cpus = [device for device in machine.devices if is_of_type(device, CPU)]
    gpus = (str(parse_device(machine.host)._replace(type=GPU, id=at)) for at in range(count))
    return Machine.of([*gpus, *cpus])

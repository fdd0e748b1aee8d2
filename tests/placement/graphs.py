"""A small language for writing graphs by hand, and for reading off where they are placed.

    graph = written(
        node("x", "_Arg", T="float", on="GPU:0"),
        node("name", "StringUpper", "text", asked="/GPU:0"),
        node("sum", "AddV2", "x", "y:1", "^name", T="float", group="x"),
    )
    placed = graph.placed(gpus=2, soft=False)
    placed.device("sum"), placed.decision("sum")

Attributes are in the capture file's encoding: a type is plain text, `text("NHWC")` a string,
`function("f")` a function; `attributes=None` leaves them out, as a full capture file does.
Devices are short, `GPU:0`, where the machine's are meant, and spelt as a program does in requests.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from traceanalyzer.capture_file.document import Json
from traceanalyzer.capture_file.function_records import Graph
from traceanalyzer.placement.blockers import BlockerFinder, Blockers
from traceanalyzer.placement.devices import Machine
from traceanalyzer.placement.nodes import Nodes, describe
from traceanalyzer.placement.placer import (
    Decision,
    Placement,
    Setting,
)
from traceanalyzer.placement.registry import Registry, load

KERNELS: Final = "2.21"  # the version whose kernels count, unless a graph says otherwise
_LOCAL: Final = "/job:localhost/replica:0/task:0/device:"


def full(device: str) -> str:
    """`GPU:0` as TensorFlow names it; "" stays."""
    return _LOCAL + device if device and not device.startswith("/") else device


def short(device: str) -> str:
    """The reverse of `full`."""
    return device.removeprefix(_LOCAL)


def text(value: str) -> dict[str, Json]:
    """A string, as the value of an attribute."""
    return {"s": value}


def function(name: str) -> dict[str, Json]:
    """A function, as the value of an attribute."""
    return {"func": name}


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node: see `node`."""

    name: str
    op: str
    inputs: tuple[str, ...]
    asked: str
    on: str
    attributes: dict[str, Any] | None


def node(  # noqa: PLR0913 - a node's parts, and its attributes by their names
    name: str,
    op: str,
    *inputs: str,
    asked: str = "",
    on: str = "",
    group: str | Iterable[str] = (),
    attributes: dict[str, Any] | tuple[()] | None = (),
    **by_name: Any,  # noqa: ANN401 - values of attributes
) -> Node:
    """A node that asks for a device, or is assigned to one; `_class` names its group."""
    known: dict[str, Any] | None = None
    if attributes is not None:
        known = {**dict(attributes or {}), **by_name}
        names = [group] if isinstance(group, str) else list(group)
        if names:
            known["_class"] = [text(f"loc:@{each}") for each in names]
    return Node(name=name, op=op, inputs=inputs, asked=asked, on=full(on), attributes=known)


def arg(name: str, on: str = "GPU:0", T: str = "float") -> Node:  # noqa: N803 - TensorFlow's name
    """An argument of a function."""
    return node(name, "_Arg", T=T, index=0, on=on)


def tanh(name: str, *inputs: str, **more: Any) -> Node:  # noqa: ANN401 - values of attributes
    """An op that every type of device has a kernel for."""
    return node(name, "Tanh", *inputs, T="float", **more)


def upper(name: str, *inputs: str, **more: Any) -> Node:  # noqa: ANN401 - values of attributes
    """An op without a GPU kernel."""
    return node(name, "StringUpper", *inputs, **more)


def variable(name: str, **more: Any) -> Node:  # noqa: ANN401 - values of attributes
    """An op that makes a variable."""
    return node(name, "VarHandleOp", dtype="float", shape={"shape": []}, **more)


def read(name: str, *inputs: str, **more: Any) -> Node:  # noqa: ANN401 - values of attributes
    """An op that reads one."""
    return node(name, "ReadVariableOp", *inputs, dtype="float", **more)


@dataclass(frozen=True)
class Written:
    """A graph, and the attributes that its nodes point to."""

    lines: tuple[Node, ...]
    attributes: tuple[dict[str, Any], ...] = field(init=False)
    graph: Graph = field(init=False)

    def __post_init__(self) -> None:
        pool: list[dict[str, Any]] = []
        at: list[int] = []
        for line in self.lines:
            if line.attributes is None:
                at.append(-1)
                continue
            if line.attributes not in pool[-50:]:  # a longer look would be slow in a large graph
                pool.append(line.attributes)
            at.append(len(pool) - 1 - pool[::-1].index(line.attributes))
        lines = self.lines
        object.__setattr__(self, "attributes", tuple(pool))
        object.__setattr__(self, "graph", _graph(lines, at))

    def described(self, registry: Registry | None = None, functions: Iterable[str] = ()) -> Nodes:
        """What the placer must know of it."""
        return describe(
            self.graph, self.attributes, registry or load(KERNELS), frozenset(functions)
        )

    def placed(  # noqa: PLR0913 - what counts for a placement
        self,
        *,
        gpus: int = 1,
        cpus: int = 1,
        default: str = "GPU:0",
        soft: bool = True,
        guessed: Iterable[str] = (),
        registry: Registry | None = None,
        functions: Iterable[str] = (),
    ) -> Placed:
        """Place it; the default device is that of a function that was called under no scope."""
        machine = Machine.local(gpus=gpus, cpus=cpus)
        setting = Setting(
            machine=machine,
            default_device=full(default) if full(default) in machine.devices else "",
            soft=soft,
            assigned={at: line.on for at, line in enumerate(self.lines) if line.on},
            guessed={self.index(name): "this is a guess" for name in guessed},
        )
        return Placed(self, Placement(self.described(registry, functions), setting))

    def index(self, name: str) -> int:
        """The number of a node."""
        at = self.graph.index(name)
        assert at >= 0, name
        return at


def _graph(lines: tuple[Node, ...], attributes: list[int]) -> Graph:
    none = ("",) * len(lines)
    return Graph(
        names=tuple(line.name for line in lines),
        ops=tuple(line.op for line in lines),
        inputs=tuple(line.inputs for line in lines),
        devices=tuple(line.on or line.asked for line in lines),
        attributes=tuple(attributes),
        origin_functions=none,
        origin_nodes=none,
    )


@dataclass(frozen=True)
class Placed:
    """A placement, read by names."""

    written: Written
    placement: Placement

    @property
    def devices(self) -> dict[str, str]:
        """Where each node is."""
        names = self.written.graph.names
        return dict(zip(names, map(short, self.placement.devices.values()), strict=True))

    @property
    def failures(self) -> dict[str, str]:
        """What TensorFlow would refuse the graph for, by node: the first message of each."""
        found: dict[str, str] = {}
        for at, message in self.placement.failures:
            found.setdefault(self.written.graph.names[at], message)
        return found

    def device(self, name: str) -> str:
        """Where a node is."""
        return short(self.placement.devices[self.written.index(name)])

    def decision(self, name: str) -> Decision:
        """How it came about."""
        return self.placement.decisions[self.written.index(name)]

    def together(self, one: str, other: str) -> bool:
        """Whether two nodes are in one colocation group."""
        roots = self.placement.roots
        return roots[self.written.index(one)] == roots[self.written.index(other)]

    def doubt(self, name: str) -> str:
        """Why the replay may be wrong for a node."""
        return self.placement.doubts.get(self.written.index(name), "")

    def blockers(self, name: str) -> Blockers:
        """What keeps a node from a GPU."""
        return BlockerFinder(self.placement).of(self.written.index(name))

    def holds(self, name: str) -> list[tuple[str, str]]:
        """What keeps it: (in which way, the node that it holds)."""
        names = self.written.graph.names
        return [(b.kind.value, names[b.node]) for b in self.blockers(name).found]


def written(*lines: Node) -> Written:
    """A graph of these nodes."""
    return Written(lines)

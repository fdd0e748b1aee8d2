"""A small language for writing capture files by hand, to go with the traces of `tests.traces`.

    book = Book()
    book.thread(0, "MatMul @7", "MatMul @9 /CPU:0", "__inference_f_1 @12")
    book.function("__inference_f_1", node("dense/MatMul", "MatMul", line=21, asked="/CPU:0"))
    capture file = book.capture file()

An op is written as its type, the line that asked for it, and the scope it was asked under.
"""

from dataclasses import KW_ONLY, dataclass, replace
from itertools import groupby
from typing import Any, Final

import numpy as np

from traceanalyzer.capture_file.document import (
    CaptureFile,
    EagerSequence,
    Frame,
    Session,
    Signature,
    Tensor,
)
from traceanalyzer.capture_file.function_records import (
    Definition,
    Function,
    Graph,
    Instance,
    Partition,
)

__all__ = ["CPU", "GPU", "SCRIPT", "Book", "Node", "cpu_partition", "eager_op", "node", "partition"]

SCRIPT: Final = "project/train.py"
CPU: Final = "/job:localhost/replica:0/task:0/device:CPU:0"
GPU: Final = "/job:localhost/replica:0/task:0/device:GPU:0"


@dataclass(frozen=True)
class Node:
    """A node, the line that made it, its request, what it was inlined from, its attribute set."""

    name: str
    type: str
    _: KW_ONLY
    line: int | None = None
    asked: str = ""
    origin: tuple[str, str] = ("", "")
    attributes: int = -1


node = Node


def partition(device: str, *nodes: Node) -> Partition:
    """What ran on a device."""
    return Partition(
        device=device,
        names=tuple(n.name for n in nodes),
        ops=tuple(n.type for n in nodes),
        attributes=tuple(n.attributes for n in nodes),
        origin_functions=tuple(n.origin[0] for n in nodes),
        origin_nodes=tuple(n.origin[1] for n in nodes),
    )


def cpu_partition(*nodes: Node) -> Partition:
    """What ran on the CPU."""
    return partition(CPU, *nodes)


@dataclass(frozen=True, kw_only=True)
class EagerOp:
    """A kind of eager op: see `eager_op`."""

    op: str
    line: int | None
    scope: str = ""
    code: str = "<module>"
    inputs: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()


def eager_op(  # noqa: PLR0913 - the fields of what it writes
    op: str,
    line: int | None = None,
    *,
    scope: str = "",
    code: str = "<module>",
    inputs: str = "float",
    outputs: str = "float",
    device: str = CPU,
    memory: str = "",
    taken_from: str = CPU,
) -> EagerOp:
    """A kind of eager op: types as `float;int32`, the device of what it made and its memory's."""

    def tensors(types: str, where: str, held: str) -> tuple[Tensor, ...]:
        return tuple(
            Tensor(dtype=t, device=where, backing_device=held, resource=None, shape=None)
            for t in types.split(";")
            if t
        )

    return EagerOp(
        op=op,
        line=line,
        scope=scope,
        code=code,
        inputs=tensors(inputs, taken_from, taken_from),
        outputs=tensors(outputs, device, memory or device),
    )


class Book:
    """Collects what a capture file holds."""

    def __init__(self) -> None:
        self._frames: dict[Frame, int] = {}
        self._signatures: dict[EagerOp, int] = {}
        self._sequences: list[EagerSequence] = []
        self._definitions: list[Definition] = []
        self._functions: list[Function] = []

    def thread(self, number: int, *ops: str | EagerOp, session: int = 0) -> None:
        """What a thread ran, in order; an op in words is `MatMul @7 /CPU:0`."""
        numbers = [self._signature(_parsed(op) if isinstance(op, str) else op) for op in ops]
        runs = [(k, len(list(group))) for k, group in groupby(numbers)]
        self._sequences.append(
            EagerSequence(
                thread=number,
                name=f"thread {number}",
                session=session,
                signatures=np.array([k for k, _ in runs], np.uint32),
                counts=np.array([n for _, n in runs], np.uint32),
            )
        )

    def define(self, name: str, *nodes: Node) -> None:
        """A definition."""
        self._definitions.append(
            Definition(
                name=name,
                nodes=tuple(n.name for n in nodes),
                frames=tuple(self._frame(n.line) for n in nodes),
                scopes=(None,) * len(nodes),
            )
        )

    def function(self, name: str, *nodes: Node, ran: tuple[Partition, ...] | None = None) -> None:
        """A function that was instantiated once, and the definition of the nodes with a line.

        It ran as it was, on the CPU, unless partitions are given; none where they are empty.
        """
        if any(n.line is not None for n in nodes):
            self.define(name, *(n for n in nodes if n.line is not None))
        self.instance(name, *nodes, ran=(cpu_partition(*nodes),) if ran is None else ran)

    def instance(self, name: str, *nodes: Node, ran: tuple[Partition, ...]) -> None:
        """One more instantiation."""
        graph = Graph(
            names=tuple(n.name for n in nodes),
            ops=tuple(n.type for n in nodes),
            inputs=((),) * len(nodes),
            devices=tuple(n.asked for n in nodes),
            attributes=tuple(n.attributes for n in nodes),
            origin_functions=tuple(n.origin[0] for n in nodes),
            origin_nodes=tuple(n.origin[1] for n in nodes),
        )
        made = Instance(input=graph, assigned=("",) * len(nodes), partitions=ran)
        for k, known in enumerate(self._functions):
            if known.name == name:
                self._functions[k] = replace(known, instances=(*known.instances, made))
                return
        self._functions.append(Function(name=name, instances=(made,)))

    def capture_file(self, **more: Any) -> CaptureFile:  # noqa: ANN401 - fields of `CaptureFile`
        """All that was collected."""
        session = Session(
            trace="host.xplane.pb",
            method="server",
            requested=None,
            start_ns=0,
            stop_ns=1_000_000_000,
            reason="the whole program",
        )
        signatures = tuple(self._described(op) for op in self._signatures)
        held: dict[str, Any] = {
            "tool": "0",
            "host": "host",
            "complete": True,
            "sessions": (session,),
            "frames": tuple(self._frames),
            "definitions": tuple(self._definitions),
            "functions": tuple(self._functions),
            "signatures": signatures,
            "sequences": tuple(self._sequences),
        }
        return CaptureFile(**held | more)

    def _signature(self, op: EagerOp) -> int:
        return self._signatures.setdefault(op, len(self._signatures))

    def _described(self, op: EagerOp) -> Signature:
        return Signature(
            op=op.op,
            is_function=op.op.startswith("__"),
            scope=op.scope,
            scope_frame=-1,
            frame=-1 if op.line is None else self._frame(op.line, op.code),
            attributes=-1,
            inputs=op.inputs,
            outputs=op.outputs,
        )

    def _frame(self, line: int | None, code: str = "<module>") -> int:
        if line is None:
            return -1
        frame = Frame(file=SCRIPT, line=line, code=code, is_user=True)
        return self._frames.setdefault(frame, len(self._frames))


def _parsed(words: str) -> EagerOp:
    op, *rest = words.split()
    line = next((int(w[1:]) for w in rest if w.startswith("@")), None)
    scope = next((w for w in rest if not w.startswith("@")), "")
    return eager_op(op, line, scope=scope)

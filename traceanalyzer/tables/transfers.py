"""Transfers between host and devices, with the op that made the value and the one that takes it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd

from traceanalyzer.native.events import sum_by
from traceanalyzer.tables.device_events import CopyDetails
from traceanalyzer.tables.op_occurrences import launch_functions
from traceanalyzer.tables.placements import placement_of_device
from traceanalyzer.tables.text_columns import (
    categorical,
    distinct_rows,
    filled,
    mapped,
    matches,
    pick,
)
from traceanalyzer.tables.vocabulary import Role, mask, role_of_type
from traceanalyzer.trace.strings import Strings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.tables.op_occurrences import OpOccurrences
    from traceanalyzer.tables.tracer import TracerFacts

# tensor_handle.cc, copy_to_device_node.h: the edge of a copy of a tensor that Python holds.
_TENSOR: Final = "copy"
_EDGE_SUFFIX: Final = re.compile(r"(/_\d+)+$")  # graph_partition.cc: `X/_13` carries X's output


class _Ends(NamedTuple):
    """Producer and consumer of each transfer: names, and rows of the op table (-1 for none)."""

    producer_name: Strings
    consumer_name: Strings
    producer: NDArray[np.int64]
    consumer: NDArray[np.int64]


class _Sent(NamedTuple):
    """A transfer that only the host recorded; its duration is None where unknown."""

    start_ps: int
    duration_ps: int | None
    direction: str
    producer_name: str | None
    consumer_name: str | None
    producer: int
    consumer: int
    via: str
    function: str | None
    thread: str


def transfer_rows(
    occurrences: OpOccurrences, ops: pd.DataFrame, facts: TracerFacts
) -> pd.DataFrame:
    """Build one host's rows of the transfer table.

    Transfers come from the device planes. Where no device plane can show one (between two CPU
    devices, to an emulated or pluggable device), the host's own record of the sending takes its
    place: its bytes are unknown. Between CPU devices of one task the buffer is shared, which costs
    nothing.
    """
    names = _OpNames(ops)
    on_device = _device_rows(names, ops["placement"], occurrences)
    sent = _sent_rows(names, occurrences, facts)
    table = pd.concat([on_device, sent], ignore_index=True) if len(sent) else on_device
    ids = np.array([*ops["op_id"], None], dtype=object)  # the last stands for row -1
    table["producer"] = ids[table["producer"].to_numpy(np.int64)]
    table["consumer"] = ids[table["consumer"].to_numpy(np.int64)]
    table["exposed_ps"] = pd.array([pd.NA] * len(table), dtype="Int64")
    return table


def count_transfers(ops: pd.DataFrame, transfers: pd.DataFrame) -> pd.DataFrame:
    """Return the op table with the transfers of each op counted, as producer or as consumer."""
    row_of = pd.Series(np.arange(len(ops)), index=ops["op_id"].to_numpy(dtype=object))
    ends = [
        row_of.reindex(transfers[end].astype(object)).fillna(-1).to_numpy(np.int64)
        for end in ("producer", "consumer")
    ]
    ends[1] = np.where(ends[1] == ends[0], -1, ends[1])  # once, where an op is both
    size = transfers["bytes"].fillna(0).to_numpy(np.int64)
    duration = transfers["duration_ps"].fillna(0).to_numpy(np.int64)
    counted = {
        "h2d_bytes": np.where(transfers["direction"] == "h2d", size, 0),
        "d2h_bytes": np.where(transfers["direction"] == "d2h", size, 0),
        "copy_ps": duration,
    }
    sums = {c: sum(sum_by(end, v, len(ops)) for end in ends) for c, v in counted.items()}
    return ops.assign(**sums)


class _OpNames:
    """Looks up rows of the op table by function and name, or by a name that only one row has.

    The name alone is enough where one of the two functions is unknown. If several rows fit, none is
    found.
    """

    def __init__(self, ops: pd.DataFrame) -> None:
        is_op = (~ops["is_eager"] & (ops["role"] != Role.TRANSFER)).to_numpy()
        self._exact: dict[tuple[str | None, str], int] = {}
        self._any: dict[str, int] = {}
        rows = np.flatnonzero(is_op).tolist()
        functions = ops["function"].astype(object).where(ops["function"].notna(), None)
        self._function = functions.tolist()
        for row, name in zip(rows, ops["name"][is_op].tolist(), strict=True):
            key = (self._function[row], name)
            self._exact[key] = -1 if key in self._exact else row
            self._any[name] = -1 if name in self._any else row

    def find(self, function: str | None, name: str | None) -> int:
        """Return the row, or -1."""
        if name is None:
            return -1
        found = self._exact.get((function, name))
        if found is not None:
            return found
        single = self._any.get(name, -1)
        other = single >= 0 and None not in {function, self._function[single]}
        return -1 if other else single

    def find_all(self, functions: Strings, names: Strings) -> NDArray[np.int64]:
        """Return the row of each function and name; each distinct pair is looked up once."""
        number, pairs = distinct_rows([functions.codes, names.codes])
        known_functions, known_names = (*functions.values, None), (*names.values, None)
        found = [self.find(known_functions[f], known_names[n]) for f, n in pairs.tolist()]
        rows: NDArray[np.int64] = np.array(found, np.int64)[number]
        return rows


def _device_rows(
    names: _OpNames, placements: pd.Series, occurrences: OpOccurrences
) -> pd.DataFrame:
    device = occurrences.device
    rows = np.flatnonzero(device.direction.present)
    ends = _ends(names, placements, occurrences, rows)
    details = [*device.copy_details, CopyDetails()]  # the last is of a transfer without any
    at = device.details[rows] % len(details)
    host = occurrences.host
    launch = device.sure_launch[rows]
    line = pick(host.plane.line_of, launch)
    return pd.DataFrame(
        {
            "device": categorical(device.device.take(rows)),
            "stream": categorical(device.stream.take(rows)),
            "direction": categorical(device.direction.take(rows)),
            "bytes": pd.array([d.bytes for d in details], dtype="Int64").take(at),
            "start_ps": device.start_ps[rows],
            "duration_ps": pd.array(device.duration_ps[rows], dtype="Int64"),
            "memory": np.array([d.memory for d in details], dtype=object)[at],
            "is_async": pd.array([d.is_async for d in details], dtype="boolean").take(at),
            "producer": ends.producer,
            "consumer": ends.consumer,
            "producer_name": categorical(ends.producer_name),
            "consumer_name": categorical(ends.consumer_name),
            "correlation_id": device.correlation_id[rows],
            "via": categorical(_via(occurrences, rows)),
            "function": categorical(launch_functions(host, device).take(rows)),
            "thread": categorical(Strings(line, host.plane.lines.name)),
            "launch_ps": pd.arrays.IntegerArray(pick(host.plane.start_ps, launch, 0), launch < 0),
        }
    )


def _via(occurrences: OpOccurrences, rows: NDArray[np.int64]) -> Strings:
    """Tell what the host did to start the transfers at `rows` of the device events.

    A transfer may name the send or receive that it is part of. Otherwise it depends on what it was
    launched within: a send, another op, or a function's call, whose arguments are copied. What is
    launched in none of them, nor in an executor's turn, a program moves or reads itself.
    """
    host, device = occurrences.host, occurrences.device
    label = device.op.take(rows)
    named = mapped(label, lambda text: text.rpartition(":")[2] if _is_transfer(text) else None)
    is_tensor = matches(device.edge.take(rows), lambda edge: edge == _TENSOR)
    launch = device.sure_launch[rows]
    owner = pick(occurrences.of_occurrence, pick(host.owner, launch))
    types = [t if role_of_type(t) == Role.TRANSFER else "op" for t in occurrences.rows["type"]]
    via = filled(named, Strings(owner.astype(np.int32), tuple(types)))

    is_known = launch >= 0
    in_graph = pick(host.call_of_event, launch, 0) != 0
    uses_graphs = bool(host.names.is_executor.any())
    is_outside = is_known & ~in_graph & (is_tensor | uses_graphs)
    # TensorFlow's own threads move tensors, too: the parts of an argument for several devices.
    is_of_pool = mask(name.startswith("tf_") for name in host.plane.lines.name)
    of_program = ~pick(is_of_pool, pick(host.plane.line_of, launch), missing=False)
    has_function = launch_functions(host, device).present[rows]
    is_call = is_outside & has_function
    is_own = ((is_outside & ~has_function) | (is_tensor & ~is_known)) & of_program
    rest = np.select([is_call, is_own], [0, 1], -1).astype(np.int32)
    return filled(via, Strings(rest, ("argument", "python")))


def _ends(
    names: _OpNames, placements: pd.Series, occurrences: OpOccurrences, rows: NDArray[np.int64]
) -> _Ends:
    """Find producer and consumer of the transfers at `rows` of the device events.

    The transfer itself may name both, or else the send within which it was launched. A transfer
    launched by any other op is that op's own: a value it reads back, or one it copies in.
    """
    host, device = occurrences.host, occurrences.device
    label = device.op.take(rows)
    owner = pick(host.owner, device.sure_launch[rows])
    edge = pick(host.transfer, owner)
    producer = filled(device.producer.take(rows), mapped(label, _sent_value))
    producer = filled(producer, Strings(edge, tuple(t.producer for t in host.transfers)))
    consumer = filled(
        device.consumer.take(rows), Strings(edge, tuple(t.consumer for t in host.transfers))
    )
    functions = launch_functions(host, device).take(rows)

    own_label = mapped(label, lambda text: None if _is_transfer(text) else text.rpartition(":")[0])
    named = names.find_all(functions, own_label)
    own = np.where(named >= 0, named, pick(occurrences.of_occurrence, owner))
    is_transfer = mask(role_of_type(t) == Role.TRANSFER for t in occurrences.rows["type"])
    own = np.where(pick(is_transfer, own, missing=False), -1, own)
    # An op on a GPU whose transfer has its name reads its result back or has an input copied in;
    # for an op on the CPU it is the other way about. Where the op's device is unknown, so is which
    # end it is, except that an input is copied to the device only for an eager op that is there.
    unnamed = ~producer.present & ~consumer.present
    to_host = matches(device.direction.take(rows), lambda d: d == "d2h")
    to_device = matches(device.direction.take(rows), lambda d: d == "h2d")
    on_gpu = pick(mask(str(p).startswith("gpu") for p in placements), own, missing=False)
    on_gpu |= named >= 0
    on_cpu = pick(mask(p == "cpu" for p in placements), own, missing=False) & ~on_gpu
    is_eager = pick(occurrences.rows["is_eager"].to_numpy(np.bool_), own, missing=False)
    makes = unnamed & ((to_host & on_gpu) | (to_device & on_cpu))
    takes = unnamed & ((to_device & (on_gpu | (is_eager & ~on_cpu))) | (to_host & on_cpu))
    row_names = tuple(occurrences.rows["name"])
    return _Ends(
        filled(producer, Strings(np.where(makes, own, -1).astype(np.int32), row_names)),
        filled(consumer, Strings(np.where(takes, own, -1).astype(np.int32), row_names)),
        np.where(makes, own, names.find_all(functions, producer)),
        np.where(takes, own, names.find_all(functions, consumer)),
    )


def _is_transfer(label: str) -> bool:
    return role_of_type(label.rpartition(":")[2]) == Role.TRANSFER


def _sent_value(label: str) -> str | None:
    """Return the op whose output a send or receive carries: `X` for `X/_13:_Recv`."""
    return _EDGE_SUFFIX.sub("", label.rpartition(":")[0]) if _is_transfer(label) else None


def _sent_rows(names: _OpNames, occurrences: OpOccurrences, facts: TracerFacts) -> pd.DataFrame:
    sent = _sent(names, occurrences, facts)
    table = pd.DataFrame(sent, columns=list(_Sent._fields), dtype=object)
    return table.astype(
        {"start_ps": "int64", "duration_ps": "Int64", "producer": "int64", "consumer": "int64"}
    ).assign(
        device=None,
        stream=None,
        bytes=pd.array([None] * len(sent), dtype="Int64"),
        memory="unknown",
        is_async=pd.array([None] * len(sent), dtype="boolean"),
        correlation_id=np.zeros(len(sent), np.int64),
        launch_ps=pd.array(table["start_ps"].to_numpy(np.int64), dtype="Int64"),
    )


def _sent(names: _OpNames, occurrences: OpOccurrences, facts: TracerFacts) -> list[_Sent]:
    host, device = occurrences.host, occurrences.device
    copying = device.device.take(np.flatnonzero(device.direction.present)).used()
    shown = {placement_of_device(d) for d in copying}
    plane = host.plane

    def is_shown(source: str, target: str) -> bool:
        return not shown.isdisjoint({placement_of_device(source), placement_of_device(target)})

    def thread(event: int) -> str:
        name: str = plane.lines.name[plane.line_of[event]]
        return name

    found = []
    for row in np.flatnonzero(host.transfer >= 0).tolist():
        edge = host.transfers[host.transfer[row]]
        op_type = host.names.type[host.name[row]]
        direction = _direction(edge.source, edge.target, op_type, facts)
        if direction and op_type.endswith("Send") and not is_shown(edge.source, edge.target):
            function = host.function.values[c] if (c := host.function.codes[row]) >= 0 else None
            found.append(
                _Sent(
                    int(plane.start_ps[host.event[row]]),
                    _duration(direction, edge.source, edge.target),
                    direction,
                    edge.producer or None,
                    edge.consumer or None,
                    names.find(function, edge.producer or None),
                    names.find(function, edge.consumer or None),
                    op_type,
                    function,
                    thread(int(host.event[row])),
                )
            )
    for move in host.moves:
        direction = _direction(move.source, move.target, "", facts)
        if direction and not is_shown(move.source, move.target):
            consumer = int(occurrences.of_occurrence[move.occurrence])
            found.append(
                _Sent(
                    int(plane.start_ps[move.event]),
                    _duration(direction, move.source, move.target),
                    direction,
                    None,
                    occurrences.rows["name"].iloc[consumer],
                    -1,
                    consumer,
                    "op",
                    None,
                    thread(move.event),
                )
            )
    return found


def _duration(direction: str, source: str, target: str) -> int | None:
    """Return the duration of a transfer if it is known: 0 within one task's memory."""
    task = source.partition("/device:")[0]
    return 0 if direction == "h2h" and task == target.partition("/device:")[0] else None


def _direction(source: str, target: str, op_type: str, facts: TracerFacts) -> str | None:
    """Return the direction of a transfer; None for one that stays on its device."""
    if not source and not target:
        # Sends without a key (TensorFlow up to 2.6): with a pluggable device, one traced on the
        # host goes from the CPU to that device (op_kernel.cc: its own sends are not `expensive`).
        return "h2d" if facts.pluggable_used and op_type.endswith("Send") else None
    if source == target:
        return None
    ends = ["h" if placement_of_device(d) == "cpu" else "d" for d in (source, target)]
    direction = "2".join(ends)
    return "p2p" if direction == "d2d" else direction

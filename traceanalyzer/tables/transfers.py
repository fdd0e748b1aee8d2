"""Copies between host and devices, with the op that made the value and the one that takes it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd

from traceanalyzer.native.events import sum_by
from traceanalyzer.tables.device_events import CopyDetails
from traceanalyzer.tables.op_occurrences import launch_functions
from traceanalyzer.tables.placements import placement_of_device
from traceanalyzer.tables.text_columns import categorical, empty, filled, mapped
from traceanalyzer.tables.vocabulary import Role, role_of_type
from traceanalyzer.trace.columns import Strings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.tables.device_events import DeviceEvents
    from traceanalyzer.tables.host_ops import HostOps
    from traceanalyzer.tables.op_occurrences import OpOccurrences
    from traceanalyzer.tables.tracer import TracerFacts
    from traceanalyzer.trace.columns import Plane


_TENSOR: Final = (
    "copy"  # tensor_handle.cc, copy_to_device_node.h: what such a copy's edge is called
)
_EDGE_SUFFIX: Final = re.compile(r"(/_\d+)+$")  # graph_partition.cc: `X/_13` carries X's output


class _Ends(NamedTuple):
    """Producer and consumer of each copy: names, and rows of the op table (-1 for none)."""

    producer_name: Strings
    consumer_name: Strings
    producer: NDArray[np.int64]
    consumer: NDArray[np.int64]


class _Sent(NamedTuple):
    """A copy that only the host tells of; its duration is None where that is not known."""

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


class _Asked(NamedTuple):
    """What the host did to set a copy off."""

    via: Strings
    function: Strings
    thread: Strings
    launch_ps: pd.arrays.IntegerArray


def transfer_rows(  # noqa: PLR0913, PLR0917 - the parts of one host, joined here and nowhere else
    host_name: str,
    ops: pd.DataFrame,
    occurrences: OpOccurrences,
    host: HostOps | None,
    device: DeviceEvents,
    facts: TracerFacts,
) -> pd.DataFrame:
    """Build one host's rows of the copy table.

    Copies come from the device planes. Where a transfer has no device plane to show it (between
    two CPU devices, to an emulated or pluggable device), the host's own record of the sending
    stands in: its bytes are unknown. Between CPU devices of one task the buffer is shared, which
    costs nothing.
    """
    names = _OpNames(ops)
    on_device = _device_rows(names, ops["placement"].tolist(), occurrences, host, device)
    sent = _sent_rows(names, occurrences, host, device, facts)
    table = pd.concat([on_device, sent], ignore_index=True) if len(sent) else on_device
    ids = np.array([*ops["op_id"], None], dtype=object)  # the last stands for row -1
    table["producer"] = ids[table["producer"].to_numpy(np.int64)]
    table["consumer"] = ids[table["consumer"].to_numpy(np.int64)]
    table["host"] = host_name
    table["exposed_ps"] = pd.array([pd.NA] * len(table), dtype="Int64")
    return table


def count_transfers(ops: pd.DataFrame, copies: pd.DataFrame) -> pd.DataFrame:
    """Return the op table with the copies of each op counted in, as producer or as consumer."""
    row_of = pd.Series(np.arange(len(ops)), index=ops["op_id"].to_numpy(dtype=object))
    ends = [
        row_of.reindex(copies[end].astype(object)).fillna(-1).to_numpy(np.int64)
        for end in ("producer", "consumer")
    ]
    ends[1] = np.where(ends[1] == ends[0], -1, ends[1])  # once, where an op is both
    counted = ops.copy()
    size = copies["bytes"].fillna(0).to_numpy(np.int64)
    took = copies["duration_ps"].fillna(0).to_numpy(np.int64)
    for column, values, only in (
        ("h2d_bytes", size, "h2d"),
        ("d2h_bytes", size, "d2h"),
        ("copy_ps", took, None),
    ):
        chosen = values if only is None else np.where(copies["direction"] == only, values, 0)
        counted[column] = sum(sum_by(end, chosen, len(ops)) for end in ends)
    return counted


class _OpNames:
    """Looks up rows of the op table by function and name, or by a name that one row alone has.

    The name alone serves where one of the two functions is unknown; of several rows that fit, none.
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


def _device_rows(
    names: _OpNames,
    placements: list[str],
    occurrences: OpOccurrences,
    host: HostOps | None,
    device: DeviceEvents,
) -> pd.DataFrame:
    rows = np.flatnonzero(device.direction.present)
    ends = _ends(names, placements, occurrences, host, device, rows)
    details = [*device.copy_details, CopyDetails()]  # the last is of a copy without any
    told = device.details[rows]
    asked = _asked(occurrences, host, device, rows)
    return pd.DataFrame(
        {
            "device": categorical(device.device.take(rows)),
            "stream": categorical(device.stream.take(rows)),
            "direction": categorical(device.direction.take(rows)),
            "bytes": pd.array([d.bytes for d in details], dtype="Int64").take(told % len(details)),
            "start_ps": device.start_ps[rows],
            "duration_ps": pd.array(device.duration_ps[rows], dtype="Int64"),
            "memory": np.array([d.memory for d in details], dtype=object)[told],
            "is_async": pd.array([d.is_async for d in details], dtype="boolean").take(
                told % len(details)
            ),
            "producer": ends.producer,
            "consumer": ends.consumer,
            "producer_name": categorical(ends.producer_name),
            "consumer_name": categorical(ends.consumer_name),
            "correlation_id": device.correlation_id[rows],
            "via": categorical(asked.via),
            "function": categorical(asked.function),
            "thread": categorical(asked.thread),
            "launch_ps": asked.launch_ps,
        }
    )


def _asked(
    occurrences: OpOccurrences, host: HostOps | None, device: DeviceEvents, rows: NDArray[np.int64]
) -> _Asked:
    """Tell how the host came to set off the copies at `rows` of the device events.

    What a copy says of itself comes first: the send or receive it is of. Else what it was launched
    within tells: a send, another op, a function's call, whose arguments are brought over; and what
    is in none of them, nor in an executor's turn, a program moves or reads by itself.
    """
    label = device.op.take(rows)
    via = mapped(label, lambda text: text.rpartition(":")[2] if _is_transfer(text) else None)
    is_tensor = np.array([*(e == _TENSOR for e in device.edge.values), False])[
        device.edge.codes[rows]
    ]
    functions = launch_functions(host, device).take(rows)
    if host is None:
        return _Asked(
            filled(via, Strings(np.where(is_tensor, 0, -1).astype(np.int32), ("python",))),
            functions,
            empty(len(rows)),
            pd.array([pd.NA] * len(rows), dtype="Int64"),
        )
    launch = device.sure_launch[rows]
    is_known = launch >= 0
    launch = np.where(is_known, launch, 0)  # whose values count where it is known
    owner = np.where(is_known, host.owner[launch], -1)
    row = np.append(occurrences.of_occurrence, -1)[owner]
    types = occurrences.rows["type"].tolist()
    of_transfer = [t if role_of_type(t) == Role.TRANSFER else "op" for t in types]
    kinds = dict.fromkeys(of_transfer)
    code = np.array([*(list(kinds).index(k) for k in of_transfer), -1], np.int32)[row]
    via = filled(via, Strings(code, tuple(kinds)))
    in_graph = (host.call_of_event[launch] != 0) & is_known
    uses_graphs = bool(host.names.is_executor.any())
    is_outside = is_known & ~in_graph & (is_tensor | uses_graphs)
    lines = host.plane.lines.name
    line = np.where(is_known, host.plane.line_of[launch], -1).astype(np.int32)
    # TensorFlow's own threads move tensors, too: the parts of an argument for several devices.
    of_program = ~np.array([*map(_is_of_pool, lines), False], np.bool_)[line]
    is_call = is_outside & functions.present
    is_own = ((is_outside & ~functions.present) | (is_tensor & ~is_known)) & of_program
    rest = np.select([is_call, is_own], [0, 1], -1).astype(np.int32)
    return _Asked(
        filled(via, Strings(rest, ("argument", "python"))),
        functions,
        Strings(line, lines),
        pd.arrays.IntegerArray(host.plane.start_ps[launch], ~is_known),
    )


def _ends(  # noqa: PLR0913, PLR0917 - as `transfer_rows`
    names: _OpNames,
    placements: list[str],
    occurrences: OpOccurrences,
    host: HostOps | None,
    device: DeviceEvents,
    rows: NDArray[np.int64],
) -> _Ends:
    """Find producer and consumer of the copies at `rows` of the device events.

    The copy itself may name both; else the send within which it was launched does. A copy launched
    by any other op is that op's own: a value it reads back, or one it brings over.

    Args:
        names: Looks up rows by name.
        placements: Placement of each row of the op table.
        occurrences: The rows of the op table.
        host: Op occurrences on the host.
        device: The device events.
        rows: Which of them are copies.
    """
    producer, consumer = device.producer.take(rows), device.consumer.take(rows)
    label = device.op.take(rows)
    producer = filled(producer, mapped(label, _sent_value))
    owner = (
        np.full(len(rows), -1, np.int64)
        if host is None
        else np.append(host.owner, -1)[device.sure_launch[rows]]
    )
    if host is not None:
        transfer = np.append(host.transfer, np.int32(-1))[owner]
        producer = filled(producer, Strings(transfer, tuple(t.producer for t in host.transfers)))
        consumer = filled(consumer, Strings(transfer, tuple(t.consumer for t in host.transfers)))

    functions = launch_functions(host, device).take(rows)
    producer_row = _find_rows(names, functions, producer)
    consumer_row = _find_rows(names, functions, consumer)

    own = np.append(occurrences.of_occurrence, -1)[owner]
    own_label = mapped(label, lambda text: None if _is_transfer(text) else text.rpartition(":")[0])
    named = _find_rows(names, functions, own_label)
    own = np.where(named >= 0, named, own)
    is_transfer = np.array([*_transfer_rows(occurrences), False], np.bool_)[own]
    own = np.where(is_transfer, -1, own)
    # An op on a GPU, whose copy bears its name, reads its result back or has an input brought; for
    # an op on the CPU it is the other way about. Where it ran unknown, so is which end it is, but
    # that an input is brought to the device only for an eager op that is there.
    unnamed = ~producer.present & ~consumer.present
    direction = device.direction
    to_host = np.array([d == "d2h" for d in direction.values], np.bool_)[direction.codes[rows]]
    to_device = np.array([d == "h2d" for d in direction.values], np.bool_)[direction.codes[rows]]
    on_cpu = np.array([p == "cpu" for p in (*placements, None)], np.bool_)[own]
    on_gpu = np.array([str(p).startswith("gpu") for p in (*placements, None)], np.bool_)[own]
    on_gpu |= named >= 0
    on_cpu &= ~on_gpu
    is_eager = np.array([*occurrences.rows["is_eager"], False], np.bool_)[own]
    makes = unnamed & ((to_host & on_gpu) | (to_device & on_cpu))
    takes = unnamed & ((to_device & (on_gpu | (is_eager & ~on_cpu))) | (to_host & on_cpu))
    return _Ends(
        filled(producer, _row_names(occurrences, np.where(makes, own, -1))),
        filled(consumer, _row_names(occurrences, np.where(takes, own, -1))),
        np.where(makes, own, producer_row),
        np.where(takes, own, consumer_row),
    )


def _is_of_pool(thread: str) -> bool:
    return thread.startswith("tf_")


def _is_transfer(label: str) -> bool:
    return role_of_type(label.rpartition(":")[2]) == Role.TRANSFER


def _sent_value(label: str) -> str | None:
    """Return the op whose output a send or receive carries: `X` for `X/_13:_Recv`."""
    return _EDGE_SUFFIX.sub("", label.rpartition(":")[0]) if _is_transfer(label) else None


def _transfer_rows(occurrences: OpOccurrences) -> NDArray[np.bool_]:
    return np.array([role_of_type(t) == Role.TRANSFER for t in occurrences.rows["type"]], np.bool_)


def _row_names(occurrences: OpOccurrences, rows: NDArray[np.int64]) -> Strings:
    return Strings(rows.astype(np.int32), tuple(occurrences.rows["name"]))


def _find_rows(names: _OpNames, functions: Strings, column: Strings) -> NDArray[np.int64]:
    """Look up the row of each function and name, each distinct pair once."""
    width = len(column.values) + 1
    pairs = (functions.codes + 1) * np.int64(width) + (column.codes + 1)
    distinct, inverse = np.unique(pairs, return_inverse=True)
    known_functions, known_names = (None, *functions.values), (None, *column.values)
    found = [names.find(known_functions[p // width], known_names[p % width]) for p in distinct]
    rows: NDArray[np.int64] = np.array(found, np.int64)[inverse.reshape(-1)]
    return rows


def _sent_rows(
    names: _OpNames,
    occurrences: OpOccurrences,
    host: HostOps | None,
    device: DeviceEvents,
    facts: TracerFacts,
) -> pd.DataFrame:
    sent = [] if host is None else _sent(names, occurrences, host, device, facts)
    n = len(sent)
    table = pd.DataFrame(sent, columns=list(_Sent._fields), dtype=object)
    return table.astype(
        {"start_ps": "int64", "duration_ps": "Int64", "producer": "int64", "consumer": "int64"}
    ).assign(
        device=None,
        stream=None,
        bytes=pd.array([None] * n, dtype="Int64"),
        memory="unknown",
        is_async=pd.array([None] * n, dtype="boolean"),
        correlation_id=np.zeros(n, np.int64),
        launch_ps=pd.array(table["start_ps"].to_numpy(np.int64), dtype="Int64"),
    )


def _sent(
    names: _OpNames,
    occurrences: OpOccurrences,
    host: HostOps,
    device: DeviceEvents,
    facts: TracerFacts,
) -> list[_Sent]:
    shown = {
        placement_of_device(d)
        for d in device.device.take(np.flatnonzero(device.direction.present)).used()
    }
    plane = host.plane
    found = []
    for row in np.flatnonzero(host.transfer >= 0).tolist():
        told = host.transfers[host.transfer[row]]
        op_type = host.names.type[host.name[row]]
        direction = _direction(told.source, told.target, op_type, facts)
        ends = {placement_of_device(told.source), placement_of_device(told.target)}
        if direction and op_type.endswith("Send") and ends.isdisjoint(shown):
            function = host.function.values[c] if (c := host.function.codes[row]) >= 0 else None
            found.append(
                _Sent(
                    int(plane.start_ps[host.event[row]]),
                    _duration(direction, told.source, told.target),
                    direction,
                    told.producer or None,
                    told.consumer or None,
                    names.find(function, told.producer or None),
                    names.find(function, told.consumer or None),
                    op_type,
                    function,
                    _thread(plane, int(host.event[row])),
                )
            )
    for move in host.moves:
        direction = _direction(move.source, move.target, "", facts)
        ends = {placement_of_device(move.source), placement_of_device(move.target)}
        if direction and ends.isdisjoint(shown):
            consumer = int(occurrences.of_occurrence[move.occurrence])
            name = occurrences.rows["name"].iloc[consumer]
            start = int(plane.start_ps[move.event])
            took = _duration(direction, move.source, move.target)
            thread = _thread(plane, move.event)
            found.append(
                _Sent(start, took, direction, None, name, -1, consumer, "op", None, thread)
            )
    return found


def _thread(plane: Plane, event: int) -> str:
    name: str = plane.lines.name[plane.line_of[event]]
    return name


def _duration(direction: str, source: str, target: str) -> int | None:
    """Return what a transfer costs where that is known: nothing within one task's memory."""
    task = source.partition("/device:")[0]
    return 0 if direction == "h2h" and task == target.partition("/device:")[0] else None


def _direction(source: str, target: str, op_type: str, facts: TracerFacts) -> str | None:
    """Tell which way a transfer went; None for one that stays on its device."""
    if not source and not target:
        # Sends without a key (TensorFlow up to 2.6): with a pluggable device, one traced on the
        # host goes from the CPU to that device (op_kernel.cc: its own sends are not `expensive`).
        return "h2d" if facts.pluggable_used and op_type.endswith("Send") else None
    if source == target:
        return None
    ends = [placement_of_device(d) == "cpu" for d in (source, target)]
    match ends:
        case [True, True]:
            return "h2h"
        case [True, False]:
            return "h2d"
        case [False, True]:
            return "d2h"
        case _:
            return "p2p"

"""Transfers between host and devices, with the op that made the value and the one that takes it."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd

from traceanalyzer.native.events import sum_by
from traceanalyzer.tables.arrays import (
    categorical,
    distinct_rows,
    filled,
    mapped,
    mask,
    matches,
    pick,
)
from traceanalyzer.tables.op_occurrences import launch_functions
from traceanalyzer.tables.placements import placement_of_device
from traceanalyzer.tables.vocabulary import Role, role_of_type
from traceanalyzer.trace.strings import Strings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.tables.host_ops import Move, Transfer
    from traceanalyzer.tables.op_occurrences import OpOccurrences
    from traceanalyzer.tables.tracer import TracerFacts

# tensor_handle.cc, copy_to_device_node.h: the edge of a copy of a tensor that Python holds.
_TENSOR: Final = "copy"
_SIZE_DIGITS: Final = 15  # a petabyte and more is no size; many of them would not sum
_EDGE_SUFFIX: Final = re.compile(r"(/_\d+)+$")  # graph_partition.cc: `X/_13` carries X's output


class _Details(NamedTuple):
    """What the stat `memcpy_details` says."""

    bytes: int | None
    memory: str
    is_async: bool | None


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
    table = _device_rows(names, ops["placement"], occurrences)
    sent = _sent_rows(names, occurrences, facts)
    if len(sent):
        table = pd.concat([table, sent], ignore_index=True)
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
    details = [*map(_parse_details, device.details.values), _Details(None, "unknown", None)]
    at = device.details.codes[rows] % len(details)  # the last is of a transfer without any
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
            **_ends(names, placements, occurrences, rows),
            "correlation_id": device.correlation_id[rows],
            "via": categorical(_via(occurrences, rows)),
            "function": categorical(launch_functions(host, device).take(rows)),
            "thread": categorical(Strings(line, host.plane.lines.name)),
            "launch_ps": pd.arrays.IntegerArray(pick(host.plane.start_ps, launch, 0), launch < 0),
        }
    )


def _parse_details(text: str) -> _Details:
    """Parse `[kind_src:pinned kind_dst:device ]size:4096 dest:0 async:1`."""
    pairs = dict(part.split(":", 1) for part in text.split() if ":" in part)
    size = pairs.get("size", "")
    kinds = {pairs.get("kind_src", ""), pairs.get("kind_dst", "")}
    memory = next((m for m in ("pageable", "pinned") if m in kinds), "unknown")
    is_async = {"0": False, "1": True}.get(pairs.get("async", ""))
    is_size = size.isascii() and size.isdigit() and len(size) <= _SIZE_DIGITS
    return _Details(int(size) if is_size else None, memory, is_async)


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
) -> dict[str, object]:
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
    found: dict[str, object] = {}
    for end, names_of_end, is_own in (("producer", producer, makes), ("consumer", consumer, takes)):
        own_names = Strings(np.where(is_own, own, -1).astype(np.int32), row_names)
        found[end] = np.where(is_own, own, names.find_all(functions, names_of_end))
        found[f"{end}_name"] = categorical(filled(names_of_end, own_names))
    return found


def _is_transfer(label: str) -> bool:
    return role_of_type(label.rpartition(":")[2]) == Role.TRANSFER


def _sent_value(label: str) -> str | None:
    """Return the op whose output a send or receive carries: `X` for `X/_13:_Recv`."""
    return _EDGE_SUFFIX.sub("", label.rpartition(":")[0]) if _is_transfer(label) else None


def _sent_rows(names: _OpNames, occurrences: OpOccurrences, facts: TracerFacts) -> pd.DataFrame:
    """Return what was sent that no device plane shows: by sends, and as inputs of eager ops."""
    host, device, n_edges = occurrences.host, occurrences.device, len(occurrences.host.transfers)
    copying = device.device.take(np.flatnonzero(device.direction.present)).used()
    shown = {placement_of_device(d) for d in copying}

    @cache
    def hidden(source: str, target: str) -> str | None:
        is_shown = shown & {placement_of_device(source), placement_of_device(target)}
        return None if is_shown else _direction(source, target, facts)

    is_hidden = np.array([hidden(e.source, e.target) is not None for e in host.transfers], np.bool_)
    is_send = mask(t.endswith("Send") for t in host.names.type)[host.name]
    sends = np.flatnonzero(is_send & pick(is_hidden, host.transfer, missing=False))
    moves = [move for move in host.moves if hidden(move.source, move.target)]
    # A row for each send, then one for each move: its edge, its event, and the op that takes it.
    edges: list[Transfer | Move] = [*host.transfers, *moves]
    edge = np.concatenate([host.transfer[sends], np.arange(n_edges, len(edges))]).astype(np.int32)
    event = np.append(host.event[sends], np.array([m.event for m in moves], np.int64))
    taken_by = occurrences.of_occurrence[[m.occurrence for m in moves]]
    none = np.full(len(moves), -1, np.int32)

    function = Strings(np.concatenate([host.function.codes[sends], none]), host.function.values)
    producer = Strings(edge, tuple(e.producer for e in host.transfers) + ("",) * len(moves))
    takers = occurrences.rows["name"].to_numpy()[taken_by].tolist()
    consumer = Strings(edge, (*(e.consumer for e in host.transfers), *takers))
    producer, consumer = (mapped(end, lambda name: name or None) for end in (producer, consumer))
    types = (*host.names.type, "op")
    via = Strings(np.append(host.name[sends], np.full(len(moves), len(types) - 1)), types)
    directions = tuple(hidden(e.source, e.target) or "" for e in edges)
    # Within one task's memory the buffer is shared.
    is_free = mask(
        d == "h2h" and e.source.partition("/device:")[0] == e.target.partition("/device:")[0]
        for d, e in zip(directions, edges, strict=True)
    )[edge]
    start_ps = host.plane.start_ps[event]
    return pd.DataFrame(
        {
            "device": None,
            "stream": None,
            "direction": Strings(edge, directions).to_list(),
            "bytes": pd.array([pd.NA] * len(edge), dtype="Int64"),
            "start_ps": start_ps,
            "duration_ps": pd.arrays.IntegerArray(np.zeros(len(edge), np.int64), ~is_free),
            "memory": "unknown",
            "is_async": pd.array([pd.NA] * len(edge), dtype="boolean"),
            "producer": np.append(names.find_all(function, producer)[: len(sends)], none),
            "consumer": np.append(names.find_all(function, consumer)[: len(sends)], taken_by),
            "producer_name": producer.to_list(),
            "consumer_name": consumer.to_list(),
            "correlation_id": 0,
            "via": via.to_list(),
            "function": function.to_list(),
            "thread": Strings(host.plane.line_of[event], host.plane.lines.name).to_list(),
            "launch_ps": pd.array(start_ps, dtype="Int64"),
        }
    )


def _direction(source: str, target: str, facts: TracerFacts) -> str | None:
    """Return the direction of a transfer; None for one that stays on its device."""
    if not source and not target:
        # Sends without a key (TensorFlow up to 2.6): with a pluggable device, one traced on the
        # host goes from the CPU to that device (op_kernel.cc: its own sends are not `expensive`).
        return "h2d" if facts.pluggable_used else None
    if source == target:
        return None
    ends = ["h" if placement_of_device(d) == "cpu" else "d" for d in (source, target)]
    direction = "2".join(ends)
    return "p2p" if direction == "d2d" else direction

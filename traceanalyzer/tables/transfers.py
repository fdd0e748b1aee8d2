"""Builds the table of transfers, with the ops that produce and consume their values."""

import re
from typing import Final

import numpy as np
import pandas as pd

from traceanalyzer.native.events import sum_by
from traceanalyzer.tables.arrays import (
    Ints,
    categorical,
    coded,
    distinct_rows,
    filled,
    mapped,
    mask,
    matches,
    pick,
)
from traceanalyzer.tables.occurrences import OpOccurrences
from traceanalyzer.tables.recording import TracerFacts
from traceanalyzer.tables.vocabulary import Role, placement_of_device, role_of_type
from traceanalyzer.trace.strings import Strings

# tensor_handle.cc, copy_to_device_node.h: the edge name of a copy of a Python tensor.
_TENSOR: Final = "copy"
# Sizes of a petabyte and more are invalid; their sum could overflow.
_SIZE: Final = re.compile(r"\d{1,15}", re.ASCII)
_EDGE_SUFFIX: Final = re.compile(r"(/_\d+)+$")  # graph_partition.cc: `X/_13` carries X's output


def transfer_rows(
    occurrences: OpOccurrences, ops: pd.DataFrame, facts: TracerFacts
) -> pd.DataFrame:
    """Build one host's rows of the transfer table.

    Transfers come from the device planes. Transfers that no device plane shows (between two CPU
    devices, to an emulated or pluggable device) come from the host's sends and have no bytes.
    """
    names = _OpNames(ops)
    table = _device_rows(names, ops["placement"], occurrences)
    sent = _sent_rows(names, occurrences, facts)
    if len(sent):
        table = pd.concat([table, sent], ignore_index=True)
    ids = np.array([*ops["op_id"], None], dtype=object)  # the last entry is for row -1
    table["producer"] = ids[table["producer"].to_numpy(np.int64)]
    table["consumer"] = ids[table["consumer"].to_numpy(np.int64)]
    table["exposed_ps"] = pd.array([pd.NA] * len(table), dtype="Int64")
    return table


def count_transfers(ops: pd.DataFrame, transfers: pd.DataFrame) -> pd.DataFrame:
    """Return the op table with columns added for each op's transferred bytes and copy time."""
    row_of = pd.Series(np.arange(len(ops)), index=ops["op_id"].to_numpy(dtype=object))
    ends = [
        row_of.reindex(transfers[end].astype(object)).fillna(-1).to_numpy(np.int64)
        for end in ("producer", "consumer")
    ]
    ends[1] = np.where(ends[1] == ends[0], -1, ends[1])  # count it once if an op is both
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
    """Finds rows of the op table by function and name, or by name alone if a function is unknown.

    If several rows match, none of them is returned.
    """

    def __init__(self, ops: pd.DataFrame) -> None:
        functions = ops["function"].astype(object)
        self._function = functions.where(functions.notna(), None).tolist()
        self._rows: dict[tuple[str | None, str] | str, int] = {}
        is_op = (~ops["is_eager"] & (ops["role"] != Role.TRANSFER)).to_numpy()
        for row, name in zip(np.flatnonzero(is_op).tolist(), ops["name"][is_op], strict=True):
            for key in ((self._function[row], name), name):
                self._rows[key] = -1 if key in self._rows else row

    def find_all(self, functions: Strings, names: Strings) -> Ints:
        """Return the row for each pair of function and name, or -1."""
        number, pairs = distinct_rows([functions.codes, names.codes])
        found = np.full(len(pairs), -1, np.int64)
        for k, (f, n) in enumerate(pairs.tolist()):
            if n >= 0:
                function, name = functions.values[f] if f >= 0 else None, names.values[n]
                single = self._rows.get(name, -1)
                is_others = single >= 0 and None not in {function, self._function[single]}
                found[k] = self._rows.get((function, name), -1 if is_others else single)
        return found[number]


def _device_rows(
    names: _OpNames, placements: pd.Series, occurrences: OpOccurrences
) -> pd.DataFrame:
    device, plane = occurrences.device, occurrences.host.plane
    rows = np.flatnonzero(device.direction.present)
    details = [*map(_parse_details, device.details.values), (None, "unknown", None)]
    sizes, memory, is_async = zip(*details, strict=True)
    at = device.details.codes[rows]  # -1, for none, is the last entry
    launch = device.launch[rows]
    return pd.DataFrame(
        {
            "device": categorical(device.device.take(rows)),
            "stream": categorical(device.stream.take(rows)),
            "direction": categorical(device.direction.take(rows)),
            "bytes": pd.array(sizes, dtype="Int64")[at],
            "start_ps": device.start_ps[rows],
            "duration_ps": pd.array(device.duration_ps[rows], dtype="Int64"),
            "memory": np.array(memory, dtype=object)[at],
            "is_async": pd.array(is_async, dtype="boolean")[at],
            **_ends(names, placements, occurrences, rows),
            "correlation_id": device.correlation_id[rows],
            "via": categorical(_via(occurrences, rows)),
            "function": categorical(device.function.take(rows)),
            "thread": categorical(coded(pick(plane.line_of, launch), plane.lines.name)),
            "launch_ps": pd.arrays.IntegerArray(pick(plane.start_ps, launch, 0), launch < 0),
        }
    )


def _parse_details(text: str) -> tuple[int | None, str, bool | None]:
    """Parse size, memory, and asynchrony from `kind_src:pinned kind_dst:device size:4 async:1`."""
    pairs = dict(part.split(":", 1) for part in text.split() if ":" in part)
    kinds = {pairs.get("kind_src", ""), pairs.get("kind_dst", "")}
    memory = next((m for m in ("pageable", "pinned") if m in kinds), "unknown")
    size = _SIZE.fullmatch(pairs.get("size", ""))
    return size and int(size[0]), memory, {"0": False, "1": True}.get(pairs.get("async", ""))


def _via(occurrences: OpOccurrences, rows: Ints) -> Strings:
    """Return the column `via` for the transfers at `rows` of the device events.

    A transfer can name the send or receive that it is part of. If it does not, the event that
    launched it decides: a send, another op, or a function call, whose arguments are copied. Without
    such an event, the program itself moved or read a tensor.
    """
    host, device = occurrences.host, occurrences.device
    named = mapped(device.op.take(rows), _transfer_type)
    is_tensor = matches(device.edge.take(rows), _TENSOR.__eq__)
    launch = device.launch[rows]
    owner = pick(occurrences.of_occurrence, pick(host.owner, launch))
    types = [t if role_of_type(t) == Role.TRANSFER else "op" for t in occurrences.rows["type"]]
    via = filled(named, coded(owner, types))

    is_known, uses_graphs = launch >= 0, bool(host.names.is_executor.any())
    in_graph = pick(host.call_of_event, launch, 0) != 0
    is_outside = is_known & ~in_graph & (is_tensor | uses_graphs)
    # TensorFlow's threads move tensors, too: the parts of an argument for several devices.
    of_program = mask(not name.startswith("tf_") for name in host.plane.lines.name)
    of_program = pick(of_program, pick(host.plane.line_of, launch), missing=True)
    has_function = device.function.present[rows]
    is_own = ((is_outside & ~has_function) | (is_tensor & ~is_known)) & of_program
    codes = np.select([is_outside & has_function, is_own], [0, 1], -1)
    return filled(via, coded(codes, ("argument", "python")))


def _ends(
    names: _OpNames, placements: pd.Series, occurrences: OpOccurrences, rows: Ints
) -> dict[str, object]:
    """Return the columns of producers and consumers for `rows` of the device events.

    The transfer itself can name both. If it does not, the send that launched it does. Any other
    op that launches a transfer reads a value back or copies a value in.
    """
    host, device, ops = occurrences.host, occurrences.device, occurrences.rows
    label = device.op.take(rows)
    owner = pick(host.owner, device.launch[rows])
    edge = pick(host.transfer, owner)
    producer = filled(device.producer.take(rows), mapped(label, _sent_value))
    producer = filled(producer, coded(edge, [t.producer for t in host.transfers]))
    consumer = filled(device.consumer.take(rows), coded(edge, [t.consumer for t in host.transfers]))
    functions = device.function.take(rows)

    own_label = mapped(
        label, lambda text: None if _transfer_type(text) else text.rpartition(":")[0]
    )
    named = names.find_all(functions, own_label)
    own = np.where(named >= 0, named, pick(occurrences.of_occurrence, owner))
    is_transfer = mask(role_of_type(t) == Role.TRANSFER for t in ops["type"])
    own = np.where(pick(is_transfer, own, missing=False), -1, own)
    # An op on a GPU reads its result back or has an input copied in; for an op on the CPU, it is
    # the reverse. If the op's device is unknown, so is its end of the transfer, except that inputs
    # are copied to a device only for an eager op on it.
    unnamed = ~producer.present & ~consumer.present
    to_host, to_device = (matches(device.direction.take(rows), d.__eq__) for d in ("d2h", "h2d"))
    on_gpu = pick(mask(str(p).startswith("gpu") for p in placements), own, missing=False)
    on_gpu |= named >= 0
    on_cpu = pick(mask(p == "cpu" for p in placements), own, missing=False) & ~on_gpu
    is_eager = pick(ops["is_eager"].to_numpy(np.bool_), own, missing=False)
    makes = unnamed & ((to_host & on_gpu) | (to_device & on_cpu))
    takes = unnamed & ((to_device & (on_gpu | (is_eager & ~on_cpu))) | (to_host & on_cpu))
    found: dict[str, object] = {}
    for end, names_of_end, is_own in (("producer", producer, makes), ("consumer", consumer, takes)):
        own_names = coded(np.where(is_own, own, -1), ops["name"].tolist())
        found[end] = np.where(is_own, own, names.find_all(functions, names_of_end))
        found[f"{end}_name"] = categorical(filled(names_of_end, own_names))
    return found


def _transfer_type(label: str) -> str | None:
    """Return a transfer's op type, such as `_Send` for `X/_13:_Send`, or None for other ops."""
    op_type = label.rpartition(":")[2]
    return op_type if role_of_type(op_type) == Role.TRANSFER else None


def _sent_value(label: str) -> str | None:
    """Return the op that made the value of a send or receive, such as `X` for `X/_13:_Recv`."""
    return _EDGE_SUFFIX.sub("", label.rpartition(":")[0]) if _transfer_type(label) else None


def _sent_rows(names: _OpNames, occurrences: OpOccurrences, facts: TracerFacts) -> pd.DataFrame:
    """Return the transfers that no device plane shows: sends and copied inputs of eager ops."""
    host, device, edges = occurrences.host, occurrences.device, occurrences.host.transfers
    copying = device.device.take(np.flatnonzero(device.direction.present)).used()
    shown = {placement_of_device(d) for d in copying}
    directions = [
        None
        if shown & {placement_of_device(e.source), placement_of_device(e.target)}
        else _direction(e.source, e.target, facts)
        for e in edges
    ]
    is_hidden = mask(directions)
    is_send = mask(t.endswith("Send") for t in host.names.type)[host.name]
    sends = np.flatnonzero(is_send & pick(is_hidden, host.transfer, missing=False))
    moves = np.flatnonzero(is_hidden[host.moves.edge])
    # A row for each send, then for each moved input: its edge, its event, and the consuming op.
    edge = np.append(host.transfer[sends], host.moves.edge[moves])
    event = np.append(host.event[sends], host.moves.event[moves])
    taken_by = occurrences.of_occurrence[host.moves.occurrence[moves]]
    none = np.full(len(moves), -1)

    function = coded(np.append(host.function.codes[sends], none), host.function.values)
    producer, consumer = (
        mapped(coded(edge, ends), lambda name: name or None)
        for ends in ([e.producer for e in edges], [e.consumer for e in edges])
    )
    taker = coded(np.append(np.full(len(sends), -1), taken_by), occurrences.rows["name"].tolist())
    types = (*host.names.type, "op")
    via = coded(np.append(host.name[sends], np.full(len(moves), len(types) - 1)), types)
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
            "direction": np.array(directions, object)[edge],
            "bytes": pd.array([pd.NA] * len(edge), dtype="Int64"),
            "start_ps": start_ps,
            "duration_ps": pd.arrays.IntegerArray(np.zeros(len(edge), np.int64), ~is_free),
            "memory": "unknown",
            "is_async": pd.array([pd.NA] * len(edge), dtype="boolean"),
            "producer": names.find_all(function, producer),
            "consumer": np.append(names.find_all(function, consumer)[: len(sends)], taken_by),
            "producer_name": producer.to_list(),
            "consumer_name": filled(consumer, taker).to_list(),
            "correlation_id": 0,
            "via": via.to_list(),
            "function": function.to_list(),
            "thread": coded(host.plane.line_of[event], host.plane.lines.name).to_list(),
            "launch_ps": pd.array(start_ps, dtype="Int64"),
        }
    )


def _direction(source: str, target: str, facts: TracerFacts) -> str | None:
    """Return the direction of a transfer, or None if it stays on one device."""
    if not source and not target:
        # Sends without a key (TensorFlow up to 2.6): with a pluggable device, a send traced on the
        # host goes from the CPU to that device (op_kernel.cc: the device's sends are not
        # `expensive`).
        return "h2d" if facts.pluggable_used else None
    if source == target:
        return None
    ends = ["h" if placement_of_device(d) == "cpu" else "d" for d in (source, target)]
    direction = "2".join(ends)
    return "p2p" if direction == "d2d" else direction

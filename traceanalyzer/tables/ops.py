"""The op table: a row for each op of a host, with its durations and where it ran.

An op appears on a host thread, on a device, or on both. In each place, its function, device or
input types can be missing. Occurrences that differ only in such missing values are one op.

There is an exception: below host tracer level 3, an op placed on a GPU leaves no host event. So a
host event and a kernel of the same name are two ops, unless the kernel was launched in the event.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import PureWindowsPath
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd

from traceanalyzer.native.events import sum_by
from traceanalyzer.tables.arrays import (
    coded,
    concatenate,
    distinct_rows,
    filled,
    flags_at,
    mask,
    pick,
)
from traceanalyzer.tables.functions import CONSTANTS, DATASET_LOOP, TF_DATA
from traceanalyzer.tables.host_ops import UNKNOWN_TYPE
from traceanalyzer.tables.placements import decide
from traceanalyzer.tables.silent_ops import NO_WORK
from traceanalyzer.tables.vocabulary import (
    EVERY_OP_LEVEL,
    OPTIONALS,
    PYTHON_CALLBACKS,
    Kind,
    Role,
    role_of_type,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from traceanalyzer.tables.arrays import Flags, Ints
    from traceanalyzer.tables.device_events import DeviceEvents
    from traceanalyzer.tables.graph_nodes import OpRecord
    from traceanalyzer.tables.host_ops import HostOps
    from traceanalyzer.tables.joined import Joined
    from traceanalyzer.tables.recording import TracerFacts
    from traceanalyzer.trace.strings import Strings

_KEYS: Final = ("function", "label", "device", "input_types", "side", "record")
_NO_FUNCTIONS: Final = frozenset({CONSTANTS, DATASET_LOOP, TF_DATA})
_HOST_ONLY: Final = 1  # value of the key `side` for an op seen on the host alone; otherwise 0
_UNIQUE_NUMBER: Final = re.compile(r"(\.\d+)+\Z")  # of an XLA instruction


class _Label(NamedTuple):
    """The name and type of an op."""

    name: str
    type: str
    is_eager: bool = False
    is_xla: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class OpOccurrences:
    """The op occurrences and kernels of one host, and their rows of the op table."""

    host: HostOps
    device: DeviceEvents
    #: One row per op: `function`, `name`, `type`, `device`, `input_types` (None if unknown),
    #: `is_eager`, `is_xla`, and `record`, that of an eager op (-1 if unknown). `device_assumed`:
    #: some of its occurrences lack the device; they are assumed to be the same op.
    rows: pd.DataFrame
    of_occurrence: Ints  #: row of each entry of `HostOps`
    of_device_event: Ints  #: row of each kernel in `DeviceEvents`; -1 if unknown, or a transfer
    #: Which device events show where their op ran: kernels that name it, or that an eager op
    #: launched. A graph op that launches kernels may be on the CPU, such as a Python callback.
    is_placing: Flags


def gather_occurrences(host: HostOps, device: DeviceEvents, host_level: int) -> OpOccurrences:
    """Assign the occurrences and kernels of a host to rows of its op table."""
    labels: dict[_Label, int] = {}
    is_kernel = ~device.direction.present
    owner = pick(host.owner, device.sure_launch)

    names, is_eager_op = host.names, host.kind == Kind.EAGER_OP
    # Number the labels of the host's occurrences.
    codes, kinds = pd.factorize(2 * host.name.astype(np.int64) + is_eager_op, sort=True)
    of_kinds = [_Label(names.op[k // 2], names.type[k // 2], k % 2 == 1) for k in kinds.tolist()]
    numbers = [labels.setdefault(label, len(labels)) for label in of_kinds]
    on_host = np.array(numbers, np.int64)[codes]
    label = _kernel_labels(device, labels, pick(on_host, owner))
    is_callback = mask(t in PYTHON_CALLBACKS for t in names.type)[host.name]
    by_eager_op = pick(is_eager_op & ~is_callback, owner, missing=False)
    names_its_op = device.op.present | device.hlo_op.present
    is_placing = is_kernel & (label >= 0) & (names_its_op | by_eager_op)
    kernels = np.flatnonzero(is_placing)
    # A kernel that names a different op than the one that launched it belongs to the named op.
    launched_by = np.where(pick(on_host, owner) == label, owner, -1)[kernels]
    side = np.where(host.kind == Kind.OP, _HOST_ONLY, 0)
    side[launched_by[launched_by >= 0]] = 0

    kernel_devices = _full_names(host, device.device).take(kernels)
    functions = concatenate(
        [host.function, filled(device.hlo_module, device.function).take(kernels)]
    )
    devices = concatenate([_host_devices(host, kernel_devices, launched_by), kernel_devices])
    types = concatenate([host.input_types, coded(np.full(len(kernels), -1), ())])
    number, keys = distinct_rows(
        [
            functions.codes,
            np.concatenate([on_host, label[kernels]]),
            devices.codes,
            types.codes,
            np.append(side, np.zeros(len(kernels), np.int64)),
            np.append(host.record, pick(host.record, launched_by)),
        ]
    )
    known = list(labels)
    apart = [k for k, name in enumerate(functions.values) if name in _NO_FUNCTIONS]
    table = pd.DataFrame(keys, columns=list(_KEYS))
    is_graph_op = ~mask(label.is_eager for label in known)[keys[:, 1]]
    table["device_assumed"] = _fill_gaps(table, is_graph_op, host_level, apart)
    groups = table.groupby(list(_KEYS), sort=True)
    row_of = groups.ngroup().to_numpy().astype(np.int64)[number]
    rows = groups.any().reset_index()
    named = [known[k] for k in rows["label"].tolist()]

    def texts(column: Strings, key: str) -> pd.Series:
        return pd.Series(coded(rows[key].to_numpy(), column.values).to_list(), dtype=object)

    of_occurrence = row_of[: len(host.event)]
    of_device_event = np.where(is_kernel, pick(of_occurrence, owner), -1)
    of_device_event[kernels] = row_of[len(host.event) :]
    return OpOccurrences(
        host=host,
        device=device,
        rows=pd.DataFrame(
            {
                "function": texts(functions, "function"),
                "name": pd.Series([label.name for label in named], dtype=object),
                "type": pd.Series([label.type for label in named], dtype=object),
                "device": texts(devices, "device"),
                "input_types": texts(types, "input_types"),
                "is_eager": mask(label.is_eager for label in named),
                "is_xla": mask(label.is_xla for label in named),
                "record": rows["record"],
                "device_assumed": rows["device_assumed"],
            }
        ),
        of_occurrence=of_occurrence,
        of_device_event=of_device_event,
        is_placing=is_placing,
    )


def _kernel_labels(device: DeviceEvents, labels: dict[_Label, int], launcher: Ints) -> Ints:
    """Return the label of each device event: the op that it names, otherwise its launcher's.

    `launcher` is the label of the occurrence that launched each event, -1 for none. New labels are
    added to `labels`.
    """
    eager = {(known.type, known.type): k for known, k in labels.items() if known.is_eager}
    own = np.full(len(device.op.values), -1, np.int64)
    own_eager = own.copy()
    for code in np.unique(device.op.codes[device.op.present]).tolist():
        name, _, op_type = device.op.values[code].rpartition(":")
        # An eager op's kernels can be annotated `X:X`. Unless the trace shows that it launched
        # them, a graph op of that name has priority.
        own_eager[code] = eager.get((name, op_type), -1)
        own[code] = labels.get(_Label(name, op_type), own_eager[code])
        if own[code] < 0:
            own[code] = labels.setdefault(_Label(name, op_type), len(labels))
    named = pick(own, device.op.codes)
    by_eager_op = (pick(own_eager, device.op.codes) == launcher) & (launcher >= 0)
    label = np.where((named < 0) | by_eager_op, launcher, named)

    compiled = np.flatnonzero(device.hlo_op.present)
    ops, names = device.hlo_op, device.hlo_name
    number, pairs = distinct_rows([names.codes[compiled], ops.codes[compiled]])
    found = []
    for name, op in pairs.tolist():
        op_type = _UNIQUE_NUMBER.sub("", ops.values[op])
        text = names.values[name] if name >= 0 else ops.values[op]
        known = _Label(text, op_type, is_xla=True)
        found.append(labels.setdefault(known, len(labels)))
    label[compiled] = np.array(found, np.int64)[number]
    return label


def _host_devices(host: HostOps, kernel_devices: Strings, launched_by: Ints) -> Strings:
    """Return each occurrence's device: proved by transfers, otherwise that of its kernels."""
    launched = np.flatnonzero(launched_by >= 0)
    merged = concatenate([host.device, kernel_devices.take(launched)])
    known, of_launched = np.split(merged.codes, [len(host.event)])
    of_kernel = np.full(len(known), -1, np.int32)
    of_kernel[launched_by[launched]] = of_launched
    by_kernel = ~host.device_is_proved & (of_kernel >= 0)
    return coded(np.where(by_kernel, of_kernel, known), merged.values)


def _full_names(host: HostOps, device: Strings) -> Strings:
    """Complete the names of devices if the trace shows the job and task."""
    full = (d for d in host.device.values if d.startswith("/job:"))
    prefix = next((d.partition("/device:")[0] for d in full), "")
    return coded(device.codes, [prefix + value for value in device.values])


def _fill_gaps(table: pd.DataFrame, is_graph_op: Flags, host_level: int, apart: list[int]) -> Flags:
    """Fill gaps that have one candidate; return which rows lacked the device."""
    if host_level >= EVERY_OP_LEVEL:
        table["side"] = 0
    # Eager ops of one type are many ops: the function or device of one says nothing about others.
    # Ops that tf.data calls or that run to prepare a graph are different from ops of the same name.
    outside = ~table["function"].isin(apart).to_numpy()
    _fill_single(table, "function", ["label", "side"], is_graph_op, known_in=outside)
    lacked = (table["device"] < 0).to_numpy()
    everywhere = np.ones(len(table), np.bool_)
    _fill_single(table, "device", ["function", "label", "side"], is_graph_op)
    lacked = lacked & (table["device"] >= 0).to_numpy()
    _fill_single(
        table, "input_types", ["function", "label", "device", "side", "record"], everywhere
    )
    return lacked


def _fill_single(
    table: pd.DataFrame, column: str, by: list[str], where: Flags, known_in: Flags | None = None
) -> None:
    """Fill gaps of a column where the rows with equal values in `by` share one value.

    `where` selects the rows to fill, `known_in` the rows to learn from (by default, all).
    """
    values = table[column].to_numpy(np.int64)
    learn = values >= 0 if known_in is None else (values >= 0) & known_in
    group, _ = distinct_rows([table[key].to_numpy() for key in by])
    low, high = np.full(len(table), np.iinfo(np.int64).max), np.full(len(table), -1)
    np.minimum.at(low, group[learn], values[learn])
    np.maximum.at(high, group[learn], values[learn])
    single = np.where(low == high, high, -1)[group]
    table[column] = np.where((values < 0) & where, single, values)


def op_rows(
    host_index: int,
    occurrences: OpOccurrences,
    facts: TracerFacts,
    allocations: pd.DataFrame,
    joined: Joined | None,
) -> pd.DataFrame:
    """Build one host's rows of the op table, without counting transfers.

    Keys include the host's position in the run, since its name changes between recordings.
    """
    rows, host, device = occurrences.rows, occurrences.host, occurrences.device
    n = len(rows)
    row_of, kernel_row = occurrences.of_occurrence, occurrences.of_device_event
    seen_in_pipeline = flags_at(row_of[host.in_pipeline], n)
    records: Sequence[OpRecord | None] = [None] * n if joined is None else joined.records
    role = np.array([role_of_type(t) for t in rows["type"]], dtype=object)
    if joined is not None and joined.has_own_optionals:
        role[rows["type"].isin(OPTIONALS).to_numpy()] = Role.COMPUTE
    in_pipeline = seen_in_pipeline | (role == Role.INPUT_PIPELINE)
    role[in_pipeline & (role == Role.COMPUTE)] = Role.INPUT_PIPELINE
    # Whatever its type: it affects no placement of the program's ops and sends to no device.
    role[(rows["function"] == CONSTANTS).to_numpy()] = Role.RUNTIME
    no_event = _texts((record.no_event or None) if record else None for record in records)
    is_idle = no_event.notna() & rows["type"].isin(NO_WORK)
    role[is_idle.to_numpy() & (role == Role.COMPUTE)] = Role.NO_WORK
    placements = decide(occurrences, facts, allocations, seen_in_pipeline, records)
    counts = host.plane.occurrences
    number = sum_by(row_of, np.ones_like(row_of) if counts is None else counts[host.event], n)
    input_types = _texts(
        _complete(seen, record.input_types if record else None)
        for seen, record in zip(rows["input_types"], records, strict=True)
    )
    frames = [record.frame if record else None for record in records]
    return pd.DataFrame(
        {
            "op_id": _op_ids(rows, host_index, records),
            "function": rows["function"],
            "name": rows["name"],
            "type": rows["type"],
            "device": _texts(p.device for p in placements),
            "signature": _texts(map(_signature, input_types, records)),
            "role": role,
            "placement": _texts(p.placement for p in placements),
            "placement_certainty": _texts(p.certainty for p in placements),
            "placement_source": _texts(p.source for p in placements),
            "is_eager": rows["is_eager"],
            "in_input_pipeline": in_pipeline,
            "no_event": no_event,
            "occurrences": np.where(number > 0, number, _launches(kernel_row, device, n)),
            "host_self_ps": sum_by(row_of, host.self_ps, n),
            "host_total_ps": sum_by(row_of, host.plane.duration_ps[host.event], n),
            "kernel_ps": sum_by(kernel_row, device.duration_ps, n),
            "kernels": np.bincount(kernel_row[kernel_row >= 0], minlength=n),
            "exposed_ps": pd.array([pd.NA] * n, dtype="Int64"),
            "input_types": input_types,
            "output_types": _texts(r.output_types if r else None for r in records),
            "requested_device": _texts(r.requested_device if r else None for r in records),
            "source_file": _texts(frame.file if frame else None for frame in frames),
            "source_line": pd.array([f.line if f else pd.NA for f in frames], dtype="Int64"),
        }
    )


def _texts(values: Iterable[str | None]) -> pd.Series:
    return pd.Series(list(values), dtype=object)


def _complete(seen: str | None, recorded: str | None) -> str | None:
    """Add the types that a trace omits: those of resources and references.

    If the trace and the record differ, the trace counts.
    """
    if seen is None or recorded is None:
        return seen if recorded is None else recorded
    places = seen.split(";"), recorded.split(";") if recorded else []
    agree = len(places[0]) == len(places[1]) and all(
        s in {UNKNOWN_TYPE, t} for s, t in zip(*places, strict=True)
    )
    return recorded if agree else seen


def _signature(input_types: str | None, record: OpRecord | None) -> str | None:
    """Describe an op's input types; for an eager op, also its output types, scope and line."""
    if record is None or not record.signatures:
        return input_types
    frame = record.frame
    where = f"{_file_name(frame.file)}:{frame.line}" if frame else ""
    memory = "in host memory" if record.is_on_host else ""
    types = f"{record.input_types} -> {record.output_types}"
    return ", ".join(filter(None, (types, record.requested_device, memory, where)))


def _launches(kernel_row: Ints, device: DeviceEvents, n: int) -> Ints:
    """Return the run count of each op's most frequent kernel: an estimate without host events."""
    known = pd.DataFrame({"row": kernel_row, "name": device.name.codes})[kernel_row >= 0]
    most = known.groupby(["row", "name"]).size().groupby(level="row").max()
    return most.reindex(np.arange(n), fill_value=0).to_numpy(np.int64).astype(np.int64)


def _op_ids(rows: pd.DataFrame, host_index: int, records: Sequence[OpRecord | None]) -> pd.Series:
    """Return a key for each row that is the same when the same program is recorded again.

    It omits the device, which not every trace shows, and the line, which moves with every edit
    above it. Rows that are otherwise equal are numbered by line and device.
    """
    parts = rows[["function", "name", "type", "input_types"]].fillna("").copy()
    parts["is_eager"] = rows["is_eager"].astype(str)
    parts["request"] = [_request(record) for record in records]
    eager = [record.frame if record and record.signatures else None for record in records]
    order = pd.DataFrame(
        {"line": [f.line if f else 0 for f in eager], "device": rows["device"].fillna("")}
    ).sort_values(["line", "device"], kind="stable")
    number = parts.loc[order.index].groupby(list(parts.columns), sort=False).cumcount().sort_index()
    texts = [
        "\0".join((str(host_index), *values, str(k))) + request
        for (*values, request), k in zip(parts.itertuples(index=False), number, strict=True)
    ]
    return _texts(
        blake2b(t.encode(errors="surrogatepass"), digest_size=6).hexdigest() for t in texts
    )


def _request(record: OpRecord | None) -> str:
    """Return the identity of an eager op except for its line; empty for a graph op."""
    if record is None or not record.signatures:
        return ""
    frame = record.frame
    place = (_file_name(frame.file), frame.code) if frame else ("", "")
    return "\0".join(("", record.output_types or "", record.requested_device or "", *place))


def _file_name(path: str) -> str:
    """Return the last part of a Windows or POSIX path."""
    return PureWindowsPath(path).name

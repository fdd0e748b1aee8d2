"""Assigns the occurrences of ops and the kernels of a host to rows of its op table.

An op appears on a host thread, on a device, or on both. In each place, its function, device, or
input types can be missing. Occurrences that differ only in such missing values are one op.

There is an exception: below host tracer level 3, an op placed on a GPU leaves no host event. So a
host event and a kernel of the same name are two ops, unless the event launched the kernel.
"""

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from traceanalyzer.tables.arrays import (
    Flags,
    Ints,
    coded,
    concatenate,
    distinct_rows,
    filled,
    mask,
    pick,
)
from traceanalyzer.tables.device_events import DeviceEvents
from traceanalyzer.tables.functions import CONSTANTS, DATASET_LOOP, TF_DATA
from traceanalyzer.tables.host_ops import HostOps
from traceanalyzer.tables.vocabulary import EVERY_OP_LEVEL, PYTHON_CALLBACKS, Kind
from traceanalyzer.trace.strings import Strings

_KEYS: Final = ("function", "label", "device", "input_types", "side", "record")
_NO_FUNCTIONS: Final = frozenset({CONSTANTS, DATASET_LOOP, TF_DATA})
_HOST_ONLY: Final = 1  # value of the key `side` for an op seen on the host alone; otherwise 0
_UNIQUE_NUMBER: Final = re.compile(r"(\.\d+)+\Z")  # of an XLA instruction


class _Label(NamedTuple):
    name: str
    type: str
    is_eager: bool = False
    is_xla: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class OpOccurrences:
    """The op occurrences and kernels of one host, and their rows in the op table."""

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
    owner = pick(host.owner, device.launch)

    names, is_eager_op = host.names, host.kind == Kind.EAGER_OP
    # Number the labels of the host's occurrences.
    codes, kinds = pd.factorize(2 * host.name.astype(np.int64) + is_eager_op, sort=True)
    is_compiled = names.kind == Kind.COMPILED_OP
    of_kinds = [
        _Label(names.op[k // 2], names.type[k // 2], k % 2 == 1, bool(is_compiled[k // 2]))
        for k in kinds.tolist()
    ]
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
    """Return each device event's label: its op's if the event names one, or else its launcher's.

    `launcher` is the label of the occurrence that launched each event, or -1. New labels are added
    to `labels`.
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
    """Return each occurrence's device: the one proved by transfers, or else its kernels' device."""
    launched = np.flatnonzero(launched_by >= 0)
    merged = concatenate([host.device, kernel_devices.take(launched)])
    known, of_launched = np.split(merged.codes, [len(host.event)])
    of_kernel = np.full(len(known), -1, np.int32)
    of_kernel[launched_by[launched]] = of_launched
    by_kernel = ~host.device_is_proved & (of_kernel >= 0)
    return coded(np.where(by_kernel, of_kernel, known), merged.values)


def _full_names(host: HostOps, device: Strings) -> Strings:
    """Add the job and task to device names if the trace shows them."""
    full = (d for d in host.device.values if d.startswith("/job:"))
    prefix = next((d.partition("/device:")[0] for d in full), "")
    return coded(device.codes, [prefix + value for value in device.values])


def _fill_gaps(table: pd.DataFrame, is_graph_op: Flags, host_level: int, apart: list[int]) -> Flags:
    """Fill missing values that have a single candidate. Return a mask of the filled devices."""
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
    """Fill missing values of a column if all rows with equal values in `by` share one value.

    `where` selects the rows to fill, and `known_in` the rows to learn from (by default, all).
    """
    values = table[column].to_numpy(np.int64)
    learn = values >= 0 if known_in is None else (values >= 0) & known_in
    group, _ = distinct_rows([table[key].to_numpy() for key in by])
    low, high = np.full(len(table), np.iinfo(np.int64).max), np.full(len(table), -1)
    np.minimum.at(low, group[learn], values[learn])
    np.maximum.at(high, group[learn], values[learn])
    single = np.where(low == high, high, -1)[group]
    table[column] = np.where((values < 0) & where, single, values)

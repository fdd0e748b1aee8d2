"""Every op occurrence and kernel of a host, gathered into the rows of the op table.

An op is seen on a host thread, on a device, or on both; in each place some of what identifies it
(its function, its device, its input types) may be missing. Occurrences that differ only by what one
of them lacks are one op.

With one caution. Below host tracer level 3 an op placed on a GPU leaves no host event, so a host
event and a kernel of the same name are two ops, one on each device: of two functions, or of one
that was called under two devices. They are one op only if the kernel was launched within the event.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pandas as pd

from traceanalyzer.tables.arrays import coded, concatenate, distinct_rows, filled, mask, pick
from traceanalyzer.tables.functions import CONSTANTS, DATASET_LOOP, TF_DATA
from traceanalyzer.tables.vocabulary import EVERY_OP_LEVEL, PYTHON_CALLBACKS, Kind

if TYPE_CHECKING:
    from traceanalyzer.tables.arrays import Flags, Ints
    from traceanalyzer.tables.device_events import DeviceEvents
    from traceanalyzer.tables.host_ops import HostOps
    from traceanalyzer.trace.strings import Strings

_KEYS: Final = ("function", "label", "device", "input_types", "side", "record")
_NO_FUNCTIONS: Final = frozenset({CONSTANTS, DATASET_LOOP, TF_DATA})
_HOST_ONLY: Final = 1  # value of the key `side` for an op seen on the host alone; otherwise 0
_UNIQUE_NUMBER: Final = re.compile(r"(\.\d+)+\Z")  # of an XLA instruction


class _Label(NamedTuple):
    """What an op is called."""

    name: str
    type: str
    is_eager: bool = False
    is_xla: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class OpOccurrences:
    """What was seen of the ops of one host, and the rows of the op table that it belongs to."""

    host: HostOps
    device: DeviceEvents
    #: One row an op: `function`, `name`, `type`, `device`, `input_types`, `is_eager`, `is_xla`;
    #: missing text is None. `record` is the record of an eager op, -1 for none. `device_assumed`:
    #: some of its occurrences lack the device, and were taken for the same op as those that have
    #: it.
    rows: pd.DataFrame
    of_occurrence: Ints  #: row of each entry of `HostOps`
    #: Row of each entry of `DeviceEvents` that is a kernel, -1 for a transfer or a kernel that no
    #: op could be found for.
    of_device_event: Ints
    #: Which device events show where their row's op ran: a kernel that names it, or that an eager
    #: op launched. A kernel that merely was launched within a graph op does not: a Python callback
    #: or a custom op on the CPU may launch kernels of its own.
    is_placing: Flags


def gather_occurrences(host: HostOps, device: DeviceEvents, host_level: int) -> OpOccurrences:
    """Gather a host's occurrences into rows."""
    labels: dict[_Label, int] = {}
    is_kernel = ~device.direction.present
    owner = pick(host.owner, device.sure_launch)

    on_host = _host_labels(host, labels)
    label = _kernel_labels(device, labels, pick(on_host, owner))
    is_callback = mask(t in PYTHON_CALLBACKS for t in host.names.type)[host.name]
    by_eager_op = pick((host.kind == Kind.EAGER_OP) & ~is_callback, owner, missing=False)
    names_its_op = device.op.present | device.hlo_op.present
    is_placing = is_kernel & (label >= 0) & (names_its_op | by_eager_op)
    kernels = np.flatnonzero(is_placing)
    # A kernel that names another op than the one it was launched within is the other's.
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


def _host_labels(host: HostOps, labels: dict[_Label, int]) -> Ints:
    """Number the labels of the host's occurrences."""
    names = host.names
    kinds = 2 * host.name.astype(np.int64) + (host.kind == Kind.EAGER_OP)
    distinct, inverse = np.unique(kinds, return_inverse=True)
    known = [_Label(names.op[k // 2], names.type[k // 2], k % 2 == 1) for k in distinct.tolist()]
    numbers = [labels.setdefault(label, len(labels)) for label in known]
    return np.array(numbers, np.int64)[inverse.reshape(-1)]


def _kernel_labels(device: DeviceEvents, labels: dict[_Label, int], launcher: Ints) -> Ints:
    """Number each device event's label: the op it names, or else the op that launched it.

    `launcher` is the label of the occurrence that launched each event, -1 for none. New labels are
    added.
    """
    eager = {(known.type, known.type): k for known, k in labels.items() if known.is_eager}
    own = np.full(len(device.op.values), -1, np.int64)
    own_eager = own.copy()
    for code in np.unique(device.op.codes[device.op.present]).tolist():
        name, _, op_type = device.op.values[code].rpartition(":")
        known = _Label(name, op_type)
        # An eager op's kernels may be annotated `X:X`; unless it was seen to have launched them, a
        # graph op of that name comes first.
        own_eager[code] = eager.get((name, op_type), -1)
        if known not in labels and own_eager[code] >= 0:
            own[code] = own_eager[code]
        else:
            own[code] = labels.setdefault(known, len(labels))
    named = pick(own, device.op.codes)
    by_eager_op = (pick(own_eager, device.op.codes) == launcher) & (launcher >= 0)
    label = np.where((named < 0) | by_eager_op, launcher, named)

    compiled = np.flatnonzero(device.hlo_op.present)
    ops, names = device.hlo_op, device.hlo_name
    codes = np.column_stack([names.codes[compiled], ops.codes[compiled]])
    pairs, inverse = np.unique(codes, axis=0, return_inverse=True)
    found = [
        _Label(
            names.values[name] if name >= 0 else ops.values[op],
            _UNIQUE_NUMBER.sub("", ops.values[op]),
            is_xla=True,
        )
        for name, op in pairs.tolist()
    ]
    numbers = [labels.setdefault(known, len(labels)) for known in found]
    label[compiled] = np.array(numbers, np.int64)[inverse.reshape(-1)]
    return label


def _host_devices(host: HostOps, kernel_devices: Strings, launched_by: Ints) -> Strings:
    """Return each occurrence's device: proved by transfers, or else where it launched kernels."""
    launched = np.flatnonzero(launched_by >= 0)
    merged = concatenate([host.device, kernel_devices.take(launched)])
    known, of_launched = np.split(merged.codes, [len(host.event)])
    of_kernel = np.full(len(known), -1, np.int32)
    of_kernel[launched_by[launched]] = of_launched
    by_kernel = ~host.device_is_proved & (of_kernel >= 0)
    return coded(np.where(by_kernel, of_kernel, known), merged.values)


def _full_names(host: HostOps, device: Strings) -> Strings:
    """Write plane names as TensorFlow writes devices, where the trace shows job and task."""
    full = (d for d in host.device.values if d.startswith("/job:"))
    prefix = next((d.partition("/device:")[0] for d in full), "")
    return coded(device.codes, [prefix + value for value in device.values])


def _fill_gaps(table: pd.DataFrame, is_graph_op: Flags, host_level: int, apart: list[int]) -> Flags:
    """Fill in what an occurrence lacks and a single other one has; tell which lacked the device."""
    if host_level >= EVERY_OP_LEVEL:
        table["side"] = 0
    # Eager ops of one type are many ops, and only their record distinguishes them: the function or
    # device of one says nothing about the others. What tf.data calls, and what is computed to make
    # a graph ready, runs on the CPU; an op of that name elsewhere is another op.
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
    """Fill the gaps of `column` where the rows equal in `by` know exactly one value of it.

    `where` are the rows to fill, `known_in` those to learn from: all by default.
    """
    gaps = table[column] < 0
    learn = ~gaps if known_in is None else ~gaps & known_in
    known = table.loc[learn, [*by, column]].drop_duplicates()
    single = known.drop_duplicates(by, keep=False)
    found = table[by].merge(single, "left", by)[column].fillna(-1).to_numpy(np.int64)
    table[column] = np.where(gaps & where, found, table[column])

"""Every op occurrence and kernel of a host, gathered into the rows of the op table.

An op is seen on a host thread, on a device, or on both; in each place some of what identifies it
(its function, its device, its input types) may be missing. Occurrences that differ only by what one
of them lacks are one op.

With one caution. Below host tracer level 3 an op placed on a GPU leaves no host event, so a host
event and a kernel of the same name are two ops, one on each device: of two functions, or of one
that was called under two devices. They are one op only if the kernel was launched within the event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pandas as pd

from traceanalyzer.tables.arrays import concatenate, distinct_rows, empty, filled, pick
from traceanalyzer.tables.functions import CONSTANTS, DATASET_LOOP, TF_DATA
from traceanalyzer.tables.vocabulary import EVERY_OP_LEVEL, PYTHON_CALLBACKS, Kind
from traceanalyzer.trace.strings import Strings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.tables.device_events import DeviceEvents
    from traceanalyzer.tables.host_ops import HostOps

_KEYS: Final = ("function", "label", "device", "input_types", "side", "record")
_NO_FUNCTIONS: Final = frozenset({CONSTANTS, DATASET_LOOP, TF_DATA})
_HOST_ONLY: Final = 1  # value of the key `side` for an op seen on the host alone; otherwise 0


class _Label(NamedTuple):
    """What an op is called."""

    name: str
    type: str
    is_eager: bool
    is_xla: bool


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
    #: Row of each entry of `HostOps`, int64.
    of_occurrence: NDArray[np.int64]
    #: Row of each entry of `DeviceEvents` that is a kernel, -1 for a transfer or a kernel that no
    #: op could be found for; int64.
    of_device_event: NDArray[np.int64]
    #: Which device events show where their row's op ran: a kernel that names it, or that an eager
    #: op launched. A kernel that merely was launched within a graph op does not: a Python callback
    #: or a custom op on the CPU may launch kernels of its own.
    is_placing: NDArray[np.bool_]


def gather_occurrences(host: HostOps, device: DeviceEvents, host_level: int) -> OpOccurrences:
    """Gather a host's occurrences into rows."""
    labels: dict[_Label, int] = {}
    is_kernel = ~device.direction.present
    owner = pick(host.owner, device.sure_launch)

    on_host = _host_labels(host, labels)
    label = _kernel_labels(device, labels, pick(on_host, owner))
    callback = np.array([t in PYTHON_CALLBACKS for t in host.names.type], np.bool_)[host.name]
    by_eager_op = pick((host.kind == Kind.EAGER_OP) & ~callback, owner, missing=False)
    names_its_op = device.op.present | device.hlo_op.present
    is_placing = is_kernel & (label >= 0) & (names_its_op | by_eager_op)
    kernels = np.flatnonzero(is_placing)
    # A kernel that names another op than the one it was launched within is the other's.
    launched_by = np.where(pick(on_host, owner) == label, owner, -1)[kernels]
    on_host_alone = np.where(host.kind == Kind.OP, _HOST_ONLY, 0)
    on_host_alone[launched_by[launched_by >= 0]] = 0

    kernel_functions = filled(device.hlo_module, launch_functions(host, device)).take(kernels)
    functions = concatenate([host.function, kernel_functions])
    kernel_devices = _full_names(host, device.device).take(kernels)
    devices = concatenate([_host_devices(host, kernel_devices, launched_by), kernel_devices])
    types = concatenate([host.input_types, empty(len(kernels))])
    columns = [
        functions.codes,
        np.concatenate([on_host, label[kernels]]),
        devices.codes,
        types.codes,
        np.concatenate([on_host_alone, np.zeros(len(kernels), np.int64)]),
        np.concatenate([host.record, pick(host.record, launched_by)]),
    ]
    apart = [k for k, name in enumerate(functions.values) if name in _NO_FUNCTIONS]
    rows, row_of, assumed = _merge(columns, list(labels), host_level, apart)
    described = _describe(rows, functions, list(labels), devices, types)
    described["device_assumed"] = assumed
    of_occurrence = row_of[: len(host.event)]
    of_device_event = np.where(is_kernel, pick(of_occurrence, owner), -1)
    of_device_event[kernels] = row_of[len(host.event) :]
    return OpOccurrences(
        host=host,
        device=device,
        rows=described,
        of_occurrence=of_occurrence,
        of_device_event=of_device_event,
        is_placing=is_placing,
    )


def launch_functions(host: HostOps, device: DeviceEvents) -> Strings:
    """Return the function that each device event was launched in, where that is known."""
    known = host.function_of_event
    return Strings(pick(known.codes, device.sure_launch), known.values)


def _host_labels(host: HostOps, labels: dict[_Label, int]) -> NDArray[np.int64]:
    """Number the labels of the host's occurrences."""
    names = host.names
    kinds = 2 * host.name.astype(np.int64) + (host.kind == Kind.EAGER_OP)
    distinct, inverse = np.unique(kinds, return_inverse=True)
    known = [
        _Label(names.op[k // 2], names.type[k // 2], is_eager=bool(k % 2), is_xla=False)
        for k in distinct.tolist()
    ]
    numbers = [labels.setdefault(label, len(labels)) for label in known]
    return np.array(numbers, np.int64)[inverse.reshape(-1)]


def _kernel_labels(
    device: DeviceEvents, labels: dict[_Label, int], launcher: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Number each device event's label: the op it names, or else the op that launched it.

    `launcher` is the label of the occurrence that launched each event, -1 for none. New labels are
    added.
    """
    eager = {(known.type, known.type): k for known, k in labels.items() if known.is_eager}
    own = np.full(len(device.op.values), -1, np.int64)
    own_eager = own.copy()
    for code in np.unique(device.op.codes[device.op.present]).tolist():
        name, _, op_type = device.op.values[code].rpartition(":")
        known = _Label(name, op_type, is_eager=False, is_xla=False)
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
    pairs = np.column_stack([device.hlo_name.codes[compiled], device.hlo_op.codes[compiled]])
    distinct, inverse = np.unique(pairs, axis=0, return_inverse=True)
    numbers = []
    for name_code, op_code in distinct.tolist():
        hlo_op = device.hlo_op.values[op_code]
        name = device.hlo_name.values[name_code] if name_code >= 0 else hlo_op
        known = _Label(name, _instruction(hlo_op), is_eager=False, is_xla=True)
        numbers.append(labels.setdefault(known, len(labels)))
    label[compiled] = np.array(numbers, np.int64)[inverse.reshape(-1)]
    return label


def _instruction(hlo_op: str) -> str:
    """Return an XLA instruction's kind: its name without the number that makes it unique."""
    base = hlo_op
    while "." in base and base.rpartition(".")[2].isdecimal():
        base = base.rpartition(".")[0]
    return base


def _host_devices(
    host: HostOps, kernel_devices: Strings, launched_by: NDArray[np.int64]
) -> Strings:
    """Return each occurrence's device: proved by transfers, or else where it launched kernels."""
    known = host.device
    launched = np.flatnonzero(launched_by >= 0)
    merged = concatenate([known, kernel_devices.take(launched)])
    of_kernel = np.full(len(known), -1, np.int32)
    of_kernel[launched_by[launched]] = merged.codes[len(known) :]
    by_kernel = ~host.device_is_proved & (of_kernel >= 0)
    return Strings(np.where(by_kernel, of_kernel, merged.codes[: len(known)]), merged.values)


def _full_names(host: HostOps, device: Strings) -> Strings:
    """Write plane names as TensorFlow writes devices, where the trace shows job and task."""
    full = (d for d in host.device.values if d.startswith("/job:"))
    prefix = next((d.partition("/device:")[0] for d in full), "")
    return Strings(device.codes, tuple(prefix + value for value in device.values))


def _merge(
    columns: list[NDArray[Any]], labels: list[_Label], host_level: int, apart: list[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Number the distinct occurrences, joined where one only lacks what a single other one has.

    Returns:
        The rows, one line of the key columns each, the row of each occurrence, and whether some of
        a row's occurrences lack its device.
    """
    codes, keys = distinct_rows(columns)
    table = pd.DataFrame(keys, columns=list(_KEYS))
    # Eager ops of one type are many ops, and only their record distinguishes them: the function or
    # device of one says nothing about the others.
    is_graph_op = ~np.array([label.is_eager for label in labels], np.bool_)[keys[:, 1]]
    if host_level >= EVERY_OP_LEVEL:
        table["side"] = 0
    # What tf.data calls, and what is computed to make a graph ready, runs on the CPU; an op of that
    # name elsewhere is another op.
    outside = ~table["function"].isin(apart).to_numpy()
    _fill_single(table, "function", ["label", "side"], is_graph_op, known_in=outside)
    lacked = (table["device"] < 0).to_numpy()
    _fill_single(table, "device", ["function", "label", "side"], is_graph_op)
    lacked = lacked & (table["device"] >= 0).to_numpy()
    _fill_single(table, "input_types", ["function", "label", "device", "side", "record"])
    grouped = table.groupby(list(_KEYS), sort=True).ngroup().to_numpy()
    n_rows = int(grouped.max(initial=-1)) + 1
    rows = np.empty((n_rows, len(_KEYS)), np.int64)
    rows[grouped] = table.to_numpy()
    assumed = np.zeros(n_rows, np.bool_)
    assumed[grouped[lacked]] = True
    return rows, grouped[codes].astype(np.int64), assumed


def _fill_single(
    table: pd.DataFrame,
    column: str,
    by: list[str],
    where: NDArray[np.bool_] | None = None,
    known_in: NDArray[np.bool_] | None = None,
) -> None:
    """Fill the gaps of `column` where the rows equal in `by` know exactly one value of it.

    `where` are the rows to fill, `known_in` those to learn from; all by default.
    """
    gaps = table[column] < 0
    learn = ~gaps if known_in is None else ~gaps & known_in
    if where is not None:
        gaps &= where
    known = table[learn].drop_duplicates([*by, column])
    single = known[~known.duplicated(by, keep=False)].set_index(by)[column]
    if not gaps.any() or single.empty:
        return
    keys = table.loc[gaps, by]
    wanted = pd.MultiIndex.from_frame(keys)
    table.loc[gaps, column] = single.reindex(wanted).fillna(-1).astype(np.int64).to_numpy()


def _describe(
    rows: NDArray[np.int64],
    functions: Strings,
    labels: list[_Label],
    devices: Strings,
    types: Strings,
) -> pd.DataFrame:
    def texts(column: Strings, key: str) -> pd.Series:
        codes = rows[:, _KEYS.index(key)].tolist()
        return pd.Series([column.values[c] if c >= 0 else None for c in codes], dtype=object)

    known = [labels[c] for c in rows[:, _KEYS.index("label")].tolist()]
    return pd.DataFrame(
        {
            "function": texts(functions, "function"),
            "name": pd.Series([label.name for label in known], dtype=object),
            "type": pd.Series([label.type for label in known], dtype=object),
            "device": texts(devices, "device"),
            "input_types": texts(types, "input_types"),
            "is_eager": np.array([label.is_eager for label in known], np.bool_),
            "is_xla": np.array([label.is_xla for label in known], np.bool_),
            "record": rows[:, _KEYS.index("record")],
        }
    )

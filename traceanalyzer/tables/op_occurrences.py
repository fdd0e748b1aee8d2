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
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from traceanalyzer.tables.host_ops import CONSTANTS, DATASET_LOOP, TF_DATA
from traceanalyzer.tables.text_columns import concatenate, empty, filled
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS, Kind
from traceanalyzer.trace.columns import Strings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.tables.device_events import DeviceEvents
    from traceanalyzer.tables.host_ops import HostOps


_KEYS: Final = ("function", "label", "device", "input_types", "side", "record")
_NO_FUNCTIONS: Final = frozenset({CONSTANTS, DATASET_LOOP, TF_DATA})
_EVERY_OP_LEVEL: Final = 3  # host tracer level from which ops on a GPU leave host events too
_HOST_ONLY = 1  # value of the key `side` for an op seen on the host alone; otherwise 0


# What an op is called: name, type, whether it ran eagerly, whether XLA compiled it.
_Label = tuple[str, str, bool, bool]


@dataclass(frozen=True, eq=False, kw_only=True)
class OpOccurrences:
    """The rows of one host's op table, and which sighting belongs to which row.

    Attributes:
        rows: One row an op: `function`, `name`, `type`, `device`, `input_types`, `is_eager`,
            `is_xla`; missing text is None. `record` is the record of an eager op, -1 for none.
            `device_assumed` says that some of its sightings did
            not tell the device, and were taken for the same op as those that did.
        of_occurrence: Row of each entry of `HostOps`, int64.
        of_device_event: Row of each entry of `DeviceEvents` that is a kernel, -1 for a copy or a
            kernel that no op could be found for; int64.
        is_placing: Which device events show where their row's op ran: a kernel that names it, or
            that an eager op launched. One that merely was launched within a graph op does not: a
            Python callback or a custom op on the CPU may launch kernels of its own.
    """

    rows: pd.DataFrame
    of_occurrence: NDArray[np.int64]
    of_device_event: NDArray[np.int64]
    is_placing: NDArray[np.bool_]


def gather_occurrences(
    host: HostOps | None,
    device: DeviceEvents,
    host_level: int,
    record: NDArray[np.int32] | None = None,
) -> OpOccurrences:
    """Gather a host's sightings into rows.

    Args:
        host: Op occurrences on its threads, or None.
        device: Events of its devices.
        host_level: Host tracer level.
        record: What tells eager ops apart, for each entry of `host`: -1 where nothing does.
    """
    labels: dict[_Label, int] = {}
    n_occurrences = 0 if host is None else len(host.event)
    is_kernel = ~device.direction.present
    owner = _owners(host, device)

    on_host = _host_columns(host, labels)
    label = _kernel_labels(device, labels, on_host, owner)
    is_placing = is_kernel & (label >= 0) & _names_its_op(host, device, owner)
    kernels = np.flatnonzero(is_placing)
    # A kernel that says it is of another op than the one it was launched within is the other's.
    launched_by = np.where(np.append(on_host, -1)[owner] == label, owner, -1)
    occurrence_device = _device_of_occurrences(host, device, launched_by, kernels)

    functions = concatenate([_host_functions(host), _kernel_functions(host, device).take(kernels)])
    devices = concatenate([occurrence_device, _full_names(host, device.device).take(kernels)])
    types = concatenate([host.input_types if host else empty(0), empty(len(kernels))])
    seen = [
        functions.codes.astype(np.int64),
        np.concatenate([on_host, label[kernels]]),
        devices.codes.astype(np.int64),
        types.codes.astype(np.int64),
        _sides(host, launched_by[kernels]),
        _records(n_occurrences, record, launched_by[kernels]),
    ]
    apart = [k for k, name in enumerate(functions.values) if name in _NO_FUNCTIONS]
    rows, row_of, assumed = _merge(seen, labels, host_level, apart)
    described = _describe(rows, functions, list(labels), devices, types)
    described["device_assumed"] = assumed
    of_occurrence = row_of[:n_occurrences]
    of_device_event = np.where(is_kernel, np.append(of_occurrence, -1)[owner], -1)
    of_device_event[kernels] = row_of[n_occurrences:]
    return OpOccurrences(
        rows=described,
        of_occurrence=of_occurrence,
        of_device_event=of_device_event,
        is_placing=is_placing,
    )


def _names_its_op(
    host: HostOps | None, device: DeviceEvents, owner: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Tell which device events name their op, or were launched by an eager one."""
    named = device.op.present | device.hlo_op.present
    if host is None:
        return named
    callback = np.array([t in PYTHON_CALLBACKS for t in host.names.type], np.bool_)[host.name]
    by_eager_op = np.append((host.kind == Kind.EAGER_OP) & ~callback, np.False_)[owner]
    either: NDArray[np.bool_] = named | by_eager_op
    return either


def _owners(host: HostOps | None, device: DeviceEvents) -> NDArray[np.int64]:
    """Return the host occurrence that launched each device event, -1 where it is not sure."""
    if host is None:
        return np.full(len(device), -1, np.int64)
    return np.append(host.owner, -1)[device.sure_launch]


def _host_columns(host: HostOps | None, labels: dict[_Label, int]) -> NDArray[np.int64]:
    """Number the labels of the host's occurrences."""
    if host is None:
        return np.empty(0, np.int64)
    names = host.names
    kinds = 2 * host.name.astype(np.int64) + (host.kind == Kind.EAGER_OP)
    distinct, inverse = np.unique(kinds, return_inverse=True)
    numbers = [
        labels.setdefault((names.op[k // 2], names.type[k // 2], bool(k % 2), False), len(labels))
        for k in distinct.tolist()
    ]
    return np.array(numbers, np.int64)[inverse.reshape(-1)]


def _host_functions(host: HostOps | None) -> Strings:
    return host.function if host else empty(0)


def launch_functions(host: HostOps | None, device: DeviceEvents) -> Strings:
    """Return the function that each device event was launched in, where that is known."""
    if host is None:
        return empty(len(device))
    known = host.function_of_event
    return Strings(np.append(known.codes, np.int32(-1))[device.sure_launch], known.values)


def _kernel_functions(host: HostOps | None, device: DeviceEvents) -> Strings:
    """Return the function that each device event was launched in, or its XLA module."""
    return filled(device.hlo_module, launch_functions(host, device))


def _kernel_labels(
    device: DeviceEvents,
    labels: dict[_Label, int],
    on_host: NDArray[np.int64],
    owner: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Number each device event's label: what it says of itself, else the op that launched it."""
    launcher = np.append(on_host, -1)[owner]
    eager = {(t, t): k for (_, t, is_eager, _), k in labels.items() if is_eager}
    own = np.full(len(device.op.values) + 1, -1, np.int64)
    own_eager = own.copy()
    for code in np.unique(device.op.codes).tolist():
        if code >= 0:
            name, _, op_type = device.op.values[code].rpartition(":")
            key = (name, op_type, False, False)
            # An eager op's kernels may be annotated `X:X`; unless it is seen to have launched them,
            # a graph op of that name comes first.
            own_eager[code] = eager.get((name, op_type), -1)
            if key not in labels and own_eager[code] >= 0:
                own[code] = own_eager[code]
            else:
                own[code] = labels.setdefault(key, len(labels))
    said = own[device.op.codes]
    by_eager_op = (own_eager[device.op.codes] == launcher) & (launcher >= 0)
    label = np.where((said < 0) | by_eager_op, launcher, said)

    compiled = np.flatnonzero(device.hlo_op.present)
    if len(compiled):
        pairs = np.column_stack([device.hlo_name.codes[compiled], device.hlo_op.codes[compiled]])
        distinct, inverse = np.unique(pairs, axis=0, return_inverse=True)
        table = []
        for name_code, op_code in distinct.tolist():
            hlo_op = device.hlo_op.values[op_code]
            name = device.hlo_name.values[name_code] if name_code >= 0 else hlo_op
            key = (name, _instruction(hlo_op), False, True)
            table.append(labels.setdefault(key, len(labels)))
        label[compiled] = np.array(table, np.int64)[inverse.reshape(-1)]
    return label


def _instruction(hlo_op: str) -> str:
    """Return an XLA instruction's kind: its name without the number that makes it unique."""
    base = hlo_op
    while "." in base and base.rpartition(".")[2].isdecimal():
        base = base.rpartition(".")[0]
    return base


def _device_of_occurrences(
    host: HostOps | None,
    device: DeviceEvents,
    launched_by: NDArray[np.int64],
    kernels: NDArray[np.int64],
) -> Strings:
    """Return each occurrence's device: proved by transfers, else where it launched kernels."""
    if host is None:
        return empty(0)
    known = host.device
    launched = kernels[launched_by[kernels] >= 0]
    if not len(launched):
        return known
    names = _full_names(host, device.device)
    merged = concatenate([known, names.take(launched)])
    codes = merged.codes[: len(known)].copy()
    of_kernel = np.full(len(known), -1, np.int32)
    of_kernel[launched_by[launched]] = merged.codes[len(known) :]
    by_kernel = ~host.device_is_proved & (of_kernel >= 0)
    return Strings(np.where(by_kernel, of_kernel, codes).astype(np.int32), merged.values)


def _full_names(host: HostOps | None, device: Strings) -> Strings:
    """Write plane names as TensorFlow writes devices, where the trace shows job and task."""
    told = host.device.values if host else ()
    prefix = next((d.partition("/device:")[0] for d in told if d.startswith("/job:")), "")
    return Strings(device.codes, tuple(prefix + value for value in device.values))


def _sides(host: HostOps | None, launched_by: NDArray[np.int64]) -> NDArray[np.int64]:
    """Tell for each sighting whether it was on the host alone; kernels come last."""
    on_device = np.zeros(len(launched_by), np.int64)
    if host is None:
        return on_device
    alone = np.where(host.kind == Kind.OP, _HOST_ONLY, 0)
    alone[launched_by[launched_by >= 0]] = 0
    return np.concatenate([alone, on_device])


def _records(
    n_occurrences: int, record: NDArray[np.int32] | None, launched_by: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the record of each sighting: a kernel's is that of the eager op it was launched by."""
    if record is None:
        return np.full(n_occurrences + len(launched_by), -1, np.int64)
    return np.concatenate([record, np.append(record, -1)[launched_by]]).astype(np.int64)


def _merge(
    seen: list[NDArray[np.int64]], labels: dict[_Label, int], host_level: int, apart: list[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Number the distinct sightings, joined where one only lacks what a single other one has.

    Returns:
        The rows, one line of the key columns each, the row of each sighting, and whether the
        device of a row was not told by all its sightings.
    """
    width = len(_KEYS)
    codes, keys = _distinct(seen)
    table = pd.DataFrame(keys, columns=list(_KEYS))
    eager = np.array([is_eager for _, _, is_eager, _ in labels], np.bool_)
    # Eager ops of one type are many ops, told apart by their record alone: what is known of one
    # says nothing of the others.
    graph = ~eager[keys[:, 1]] if len(keys) else np.zeros(0, np.bool_)
    if host_level >= _EVERY_OP_LEVEL:
        table["side"] = 0
    # What tf.data calls, and what is computed to make a graph ready, runs on the CPU; an op of that
    # name elsewhere is another op.
    outside = ~table["function"].isin(apart).to_numpy()
    _fill_single(table, "function", ["label", "side"], graph, known_in=outside)
    untold = (table["device"] < 0).to_numpy()
    _fill_single(table, "device", ["function", "label", "side"], graph)
    untold = untold & (table["device"] >= 0).to_numpy()
    _fill_single(table, "input_types", ["function", "label", "device", "side", "record"])
    grouped = table.groupby(list(_KEYS), sort=True).ngroup().to_numpy()
    n_rows = int(grouped.max(initial=-1)) + 1
    rows = np.empty((n_rows, width), np.int64)
    rows[grouped] = table.to_numpy()
    assumed = np.zeros(n_rows, np.bool_)
    assumed[grouped[untold]] = True
    return rows, grouped[codes].astype(np.int64), assumed


def _distinct(seen: list[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of each line of these columns, and the distinct lines; from -1 up."""
    sizes = [int(column.max(initial=-1)) + 2 for column in seen]
    if prod(sizes) >= 2**63:  # more than a number can hold: sort the lines instead
        keys, codes = np.unique(np.column_stack(seen), axis=0, return_inverse=True)
        return codes.reshape(-1), keys
    packed = np.zeros(len(seen[0]), np.int64)
    for column, size in zip(seen, sizes, strict=True):
        if size > 1:  # else the column is a gap throughout
            packed = packed * size + (column + 1)
    codes, distinct = pd.factorize(packed)
    keys = np.empty((len(distinct), len(seen)), np.int64)
    rest = np.asarray(distinct, np.int64).copy()
    for k in reversed(range(len(seen))):
        keys[:, k] = rest % sizes[k] - 1
        rest //= sizes[k]
    return codes, keys


def _fill_single(
    table: pd.DataFrame,
    column: str,
    by: list[str],
    where: NDArray[np.bool_] | None = None,
    known_in: NDArray[np.bool_] | None = None,
) -> None:
    """Fill the gaps of `column` where the rows equal in `by` know exactly one value of it.

    Args:
        table: The distinct sightings.
        column: Column to fill.
        by: Columns that must be equal.
        where: Rows to fill; all by default.
        known_in: Rows to learn from; all by default.
    """
    learn = table[column] >= 0
    if known_in is not None:
        learn &= known_in
    known = table[learn].drop_duplicates([*by, column])
    single = known[~known.duplicated(by, keep=False)].set_index(by)[column]
    gaps = table[column] < 0
    if where is not None:
        gaps &= where
    if not gaps.any() or single.empty:
        return
    keys = table.loc[gaps, by]
    wanted = pd.MultiIndex.from_frame(keys) if len(by) > 1 else pd.Index(keys[by[0]])
    table.loc[gaps, column] = single.reindex(wanted).fillna(-1).astype(np.int64).to_numpy()


def _describe(
    rows: NDArray[np.int64],
    functions: Strings,
    labels: list[_Label],
    devices: Strings,
    types: Strings,
) -> pd.DataFrame:
    def texts(column: Strings, codes: NDArray[np.int64]) -> list[str | None]:
        return [column.values[c] if c >= 0 else None for c in codes.tolist()]

    known = [labels[c] for c in rows[:, 1].tolist()]
    return pd.DataFrame(
        {
            "function": pd.Series(texts(functions, rows[:, 0]), dtype=object),
            "name": pd.Series([k[0] for k in known], dtype=object),
            "type": pd.Series([k[1] for k in known], dtype=object),
            "device": pd.Series(texts(devices, rows[:, 2]), dtype=object),
            "input_types": pd.Series(texts(types, rows[:, 3]), dtype=object),
            "is_eager": np.array([k[2] for k in known], np.bool_),
            "is_xla": np.array([k[3] for k in known], np.bool_),
            "record": rows[:, 5],
        }
    )

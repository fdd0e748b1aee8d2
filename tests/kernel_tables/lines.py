"""From TensorFlow's KernelDefs and OpDefs to the lines of the tables, without version ranges.

What a line says stands in `traceanalyzer/placement/kernel_tables.py`, which reads them.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import msgspec
from msgspec import UNSET

from traceanalyzer.capture_file.document import Json
from traceanalyzer.capture_file.graph_def import attribute_of_entry
from traceanalyzer.placement.kernel_tables import Argument, AttributeDefinition, OpDefinition

# XLA's and TPUs' device types are left out: no op is placed there that runs on CPU or GPU.
KEPT = ("CPU", "DEFAULT", "GPU")


@dataclass(frozen=True)
class Combination:
    """A kernel for one value of each constrained attribute: what merged and unmerged have alike."""

    op: str
    device_type: str
    values: tuple[tuple[str, str | int | bool], ...]  # attribute and value, by name
    host_memory_args: tuple[str, ...]
    priority: int
    label: str


@dataclass(frozen=True)
class _Row:
    """A line of kernels in the making."""

    device_type: str
    constraints: tuple[tuple[str, frozenset[str | int | bool]], ...]
    host_memory_args: tuple[str, ...]
    priority: int
    label: str


def type_name(number: int) -> str:
    """Return a type's name as a capture file has it."""
    # An AttrValue of field 6, `type`, as the value (2) of a map's entry.
    entry = bytes([0x12, 2, 0x30, number]) if number < 0x80 else b""
    name = attribute_of_entry(entry)[1]
    if not isinstance(name, str) or name.startswith("dtype"):
        msg = f"type {number} has no name in traceanalyzer/capture_file/attributes.py"
        raise ValueError(msg)
    return name


def combinations(kernels: Iterable[Any]) -> Iterator[Combination]:
    """Walk kernels, each value of a constraint by itself.

    Args:
        kernels: KernelDefs.
    """
    for kernel in kernels:
        if kernel.device_type not in KEPT:
            continue
        constraints = sorted((c.name, _values(c.allowed_values.list)) for c in kernel.constraint)
        for values in product(*(allowed for _, allowed in constraints)):
            yield Combination(
                op=kernel.op,
                device_type=kernel.device_type,
                values=tuple((name, v) for (name, _), v in zip(constraints, values, strict=True)),
                host_memory_args=tuple(sorted(kernel.host_memory_arg)),
                priority=kernel.priority,
                label=kernel.label,
            )


def _values(listed: Any) -> list[str | int | bool]:  # noqa: ANN401 - an AttrValue.ListValue
    found = [*map(type_name, listed.type), *(s.decode() for s in listed.s), *listed.i, *listed.b]
    if not found or listed.f or listed.shape or listed.tensor or listed.func:
        msg = f"constraint of a kind that tables have no form for: {listed}"
        raise ValueError(msg)
    return found


def kernel_lines(kernels: Iterable[Any], list_attributes: frozenset[str]) -> list[str]:
    """Return the lines of one op's kernels, those merged that differ in one attribute alone.

    Args:
        kernels: Its KernelDefs.
        list_attributes: Its attributes that are lists: there a kernel for two types takes lists of
            both, which two kernels of one type each do not, so that these are not merged.
    """
    times: Counter[_Row] = Counter()
    copies: dict[int, set[_Row]] = defaultdict(set)
    for kernel in kernels:
        if kernel.device_type not in KEPT:
            continue
        constraints = (
            (c.name, frozenset(_values(c.allowed_values.list))) for c in kernel.constraint
        )
        row = _Row(
            device_type=kernel.device_type,
            constraints=tuple(sorted(constraints)),
            host_memory_args=tuple(sorted(kernel.host_memory_arg)),
            priority=kernel.priority,
            label=kernel.label,
        )
        times[row] += 1
        copies[times[row]].add(row)
    return sorted(
        _line(row, copy) for copy, rows in copies.items() for row in _merged(rows, list_attributes)
    )


def _merged(rows: set[_Row], list_attributes: frozenset[str]) -> set[_Row]:
    """Merge rows that differ in one attribute alone, until there are none."""
    while True:
        before = len(rows)
        names = sorted({name for row in rows for name, _ in row.constraints} - list_attributes)
        for name in names:
            alike = defaultdict(set)
            for row in rows:
                rest = tuple((n, v if n != name else frozenset()) for n, v in row.constraints)
                values = next((v for n, v in row.constraints if n == name), frozenset())
                alike[replace(row, constraints=rest)] |= values
            rows = {
                replace(
                    row,
                    constraints=tuple(
                        (n, frozenset(values) if n == name else v) for n, v in row.constraints
                    ),
                )
                for row, values in alike.items()
            }
        if len(rows) == before:
            return rows


def _line(row: _Row, copies: int) -> str:
    constraints = {
        name: sorted(v, key=lambda v: (type(v).__name__, v)) for name, v in row.constraints
    }
    optional = {
        "constraints": constraints,
        "host_memory_args": row.host_memory_args,
        "priority": row.priority,
        "label": row.label,
        "copies": copies if copies > 1 else 0,
    }
    given = {name: value for name, value in optional.items() if value}
    return msgspec.json.encode({"device_type": row.device_type, **given}).decode()


def definition_line(op: Any) -> str:  # noqa: ANN401 - an OpDef, made at run time
    """Return the line of an op's definition."""
    return msgspec.json.encode(definition_of(op)).decode()


def definition_of(op: Any) -> OpDefinition:  # noqa: ANN401
    """Return an op's definition as the tables have it."""
    return OpDefinition(
        name=op.name,
        inputs=tuple(map(_argument, op.input_arg)),
        outputs=tuple(map(_argument, op.output_arg)),
        attributes={attribute.name: _attribute(attribute) for attribute in op.attr},
        is_stateful=op.is_stateful,
    )


def _argument(argument: Any) -> Argument:  # noqa: ANN401
    return Argument(
        name=argument.name,
        type=type_name(argument.type) if argument.type else "",
        type_attr=argument.type_attr,
        number_attr=argument.number_attr,
        type_list_attr=argument.type_list_attr,
        is_ref=argument.is_ref,
    )


def _attribute(attribute: Any) -> AttributeDefinition:  # noqa: ANN401
    allowed = None
    if attribute.HasField("allowed_values"):
        allowed = tuple(sorted({*map(str, _values(attribute.allowed_values.list))}))
    return AttributeDefinition(
        type=attribute.type,
        default=encoded(attribute.default_value) if attribute.HasField("default_value") else UNSET,
        allowed=allowed,
        minimum=attribute.minimum if attribute.has_minimum else None,
    )


def encoded(value: Any) -> Json:  # noqa: ANN401 - an AttrValue, made at run time
    """Return an attribute's value as a capture file has it."""
    content = value.SerializeToString()
    return attribute_of_entry(b"\x12" + _varint(len(content)) + content)[1]


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def by_op(kernels: Iterable[Any]) -> Mapping[str, list[Any]]:
    """Return KernelDefs by op."""
    found: dict[str, list[Any]] = defaultdict(list)
    for kernel in kernels:
        found[kernel.op].append(kernel)
    return found

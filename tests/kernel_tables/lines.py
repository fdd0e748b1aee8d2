"""From TensorFlow's KernelDefs and OpDefs to the lines of the tables, without version ranges.

What a line says stands in `traceanalyzer/placement/kernel_tables.py`, which reads them.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from traceanalyzer.capture_file.document import Json
from traceanalyzer.capture_file.graph_def import attribute_of_entry

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
    constraints: tuple[tuple[str, frozenset[str]], ...]
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


def _spelled(values: Any) -> list[str]:  # noqa: ANN401 - an AttrValue, made at run time
    """Return the values that an attribute may have, as the tables spell them."""
    listed = values.list
    found = [
        *map(type_name, listed.type),
        *(_without(" ,;}", json.dumps(s.decode())) for s in listed.s),
        *map(str, listed.i),
        *(str(b).lower() for b in listed.b),
    ]
    if not found or listed.f or listed.shape or listed.tensor or listed.func:
        msg = f"constraint of a kind that tables have no form for: {values}"
        raise ValueError(msg)
    return found


def _without(marks: str, encoded_text: str) -> str:
    """Escape characters of JSON that would part a line."""
    for mark in marks:
        encoded_text = encoded_text.replace(mark, f"\\u{ord(mark):04x}")
    return encoded_text


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
    return [*map(type_name, listed.type), *(s.decode() for s in listed.s), *listed.i, *listed.b]


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
        constraints = ((c.name, frozenset(_spelled(c.allowed_values))) for c in kernel.constraint)
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


def _line(row: _Row, copy: int) -> str:
    parts = [row.device_type, *(f"{name}={','.join(sorted(v))}" for name, v in row.constraints)]
    facts = []
    if row.host_memory_args:
        facts.append(f"host={','.join(row.host_memory_args)}")
    if row.priority:
        facts.append(f"priority={row.priority}")
    if row.label:
        facts.append(f"label={row.label}")
    if copy > 1:
        facts.append(f"copy={copy}")
    return " ".join([*parts, ";", *facts] if facts else parts)


def definition_line(definition: Any) -> str:  # noqa: ANN401 - an OpDef, made at run time
    """Return the line of an op's definition."""
    parts = []
    if definition.input_arg:
        parts += ["in", *map(_argument, definition.input_arg)]
    if definition.output_arg:
        parts += ["out", *map(_argument, definition.output_arg)]
    if definition.attr:
        parts += ["attr", *map(_attribute, definition.attr)]
    if definition.is_stateful:
        parts.append("stateful")
    return " ".join(parts)


def _argument(argument: Any) -> str:  # noqa: ANN401
    number = f"${argument.number_attr}*" if argument.number_attr else ""
    if argument.type_list_attr:
        dtype = f"${argument.type_list_attr}[]"
    else:
        dtype = f"${argument.type_attr}" if argument.type_attr else type_name(argument.type)
    return f"{argument.name}:{number}{dtype}{'&' if argument.is_ref else ''}"


def _attribute(attribute: Any) -> str:  # noqa: ANN401
    said = f"{attribute.name}:{attribute.type}"
    if attribute.has_minimum:
        said += f">={attribute.minimum}"
    if attribute.HasField("allowed_values"):
        said += f"{{{','.join(sorted(_spelled(attribute.allowed_values)))}}}"
    if attribute.HasField("default_value"):
        said += f"={_default(attribute.default_value)}"
    return said


def _default(value: Any) -> str:  # noqa: ANN401
    return _without(" ", json.dumps(encoded(value), separators=(",", ":")))


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

"""Merges the graphs that TensorFlow built from one Python function, if their ops are the same.

TensorFlow builds a graph for each new signature of a function. Without merging, the ops of a
function that is traced again and again would count once per trace. Graphs of a capture file are
merged if nodes, devices, dtypes, and source lines are the same. A trace alone shows only op names
and types, and TensorFlow stops recording cheap ops: graphs are merged if there are many, and if one
has nearly all ops of the other.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Final

import numpy as np

from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.tables.arrays import coded
from traceanalyzer.tables.functions import base_and_counter
from traceanalyzer.tables.host_ops import HostOps
from traceanalyzer.tables.vocabulary import Kind
from traceanalyzer.trace.strings import Strings

_DIRECTION: Final = re.compile(r"__(inference|forward|backward)_")
# Attributes that differ between signatures with the same placement: values, shapes, names.
_VARYING: Final = frozenset(
    {
        *("value", "shape", "shapes", "_output_shapes", "output_shapes", "element_shape"),
        *("container", "shared_name"),
    }
)
# TensorFlow's counter in the name of a function or of a custom gradient.
_COUNTER: Final = re.compile(r"[-_]\d+(?=')")
_MANY: Final = 4  # graphs: fewer may be variants, such as for training and inference
_NEARLY_ALL: Final = 0.8


def with_merged_copies(host: HostOps, capture_file: CaptureFile | None) -> HostOps:
    """Give all graphs of a Python function with the same ops the label of the first one."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for label, full in host.definitions.items():
        direction = _DIRECTION.match(full)
        groups[direction[1] if direction else "", base_and_counter(full)[0]].append(label)
    several = [labels for labels in groups.values() if len(labels) > 1]
    if not several:
        return host
    if capture_file is None:
        merged = dict(_by_recorded_ops(host, several))
    else:
        merged = dict(_by_graphs(host.definitions, several, capture_file))
    if not merged:
        return host
    values = host.function.values
    number = {name: at for at, name in enumerate(values)}
    new = np.array([number[merged.get(name, name)] for name in values], np.int32)

    def relabelled(functions: Strings) -> Strings:
        codes = functions.codes
        return coded(np.where(codes >= 0, new[codes], -1), values)

    return replace(
        host,
        function=relabelled(host.function),
        function_of_event=relabelled(host.function_of_event),
        definitions={k: full for k, full in host.definitions.items() if k not in merged},
        copies=frozenset(host.definitions[label] for label in merged),
    )


def _by_graphs(
    definitions: Mapping[str, str], groups: Iterable[list[str]], capture_file: CaptureFile
) -> Iterator[tuple[str, str]]:
    """Yield each label whose graph equals that of an earlier label, with that label."""

    @cache
    def attributes(index: int) -> Hashable:
        found = capture_file.attribute_set(index)
        own = repr(sorted((k, v) for k, v in found.items() if k not in _VARYING))
        return _COUNTER.sub("", own)

    for labels in groups:
        first: dict[Hashable, str] = {}
        for label in labels:
            function = capture_file.function(definitions[label])
            definition = capture_file.definition(definitions[label])
            if function is None or definition is None:
                continue
            graphs = [
                (
                    *(each.input.names, each.input.ops, each.input.devices, each.input.inputs),
                    each.assigned,
                    tuple(map(attributes, each.input.attributes)),
                )
                for each in function.instances
            ]
            same = first.setdefault((definition.nodes, definition.frames, tuple(graphs)), label)
            if same != label:
                yield label, same


def _by_recorded_ops(host: HostOps, groups: Iterable[list[str]]) -> Iterator[tuple[str, str]]:
    """Yield each label whose ops are nearly those of another label, with that label."""
    is_op = (host.kind == Kind.OP) & (host.function.codes >= 0)
    pairs = np.unique(np.stack([host.function.codes[is_op], host.name[is_op]], axis=1), axis=0)
    ops: dict[str, set[int]] = defaultdict(set)
    for function, name in pairs.tolist():
        ops[host.function.values[function]].add(name)
    for labels in groups:
        if len(labels) < _MANY or not _name(host, labels[0]).isidentifier():
            continue
        alike: dict[str, list[str]] = {}  # by the one with the most ops
        for label in sorted(labels, key=lambda each: -len(ops[each])):
            own = ops[label]
            same = (k for k in alike if own <= ops[k] and len(own) >= _NEARLY_ALL * len(ops[k]))
            alike.setdefault(next(same, label), []).append(label)
        for members in alike.values():
            first, *others = sorted(members, key=labels.index)
            yield from ((each, first) for each in others)


def _name(host: HostOps, label: str) -> str:
    return base_and_counter(host.definitions[label])[0]

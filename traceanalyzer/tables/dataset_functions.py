"""Tells apart which function of a dataset each call by tf.data ran.

A trace says that tf.data called a function, and not which. The ops that ran in the call tell, where
a capture recorded the functions: their names must all be nodes of it, and of several functions it
is the one that has the fewest nodes besides.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from traceanalyzer.placement.dataset_calls import functions_of_datasets, functions_of_steps
from traceanalyzer.tables.host_ops import DATASET_LOOP, TF_DATA, base_and_counter
from traceanalyzer.tables.text_columns import relabelled

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from traceanalyzer.capture_file.document import CaptureFile
    from traceanalyzer.tables.host_ops import HostOps


def with_functions_of_steps(host: HostOps, capture_file: CaptureFile) -> HostOps:
    """Name the functions of datasets that compute for a step: these do not feed it.

    Args:
        host: The op occurrences of a host, where all that tf.data calls is `tf.data`.
        capture_file: What was recorded beside the trace.
    """
    of_steps = functions_of_steps(capture_file)
    called = _calls(host) if of_steps else {}
    if not called:
        return host
    nodes = _nodes(capture_file, functions_of_datasets(capture_file))
    function_of = {names: _best(names, nodes, of_steps) for names in set(called.values())}
    found = {
        call: function
        for call, names in called.items()
        if (function := function_of[names]) in of_steps
    }
    if not found:
        return host
    labels = _labels(set(found.values()), taken=host.function.values)
    code = {f: len(host.function.values) + at for at, f in enumerate(labels.values())}
    code_of_call = {call: code[function] for call, function in found.items()}
    values = (*host.function.values, *labels)
    functions = relabelled(host.function, host.call, code_of_call, values)
    return replace(
        host,
        function=functions,
        definitions=host.definitions | labels,
        in_pipeline=host.in_pipeline & (functions.codes < len(host.function.values)),
        function_of_event=relabelled(
            host.function_of_event, host.call_of_event, code_of_call, values
        ),
    )


def _calls(host: HostOps) -> dict[int, frozenset[str]]:
    """Return the names of the ops that each call by tf.data ran, by its step id."""
    by_data = [k for k, f in enumerate(host.function.values) if f in {TF_DATA, DATASET_LOOP}]
    is_called = np.isin(host.function.codes, by_data) & (host.call != 0)
    pairs = np.unique(np.stack([host.call[is_called], host.name[is_called]], axis=1), axis=0)
    found: dict[int, list[str]] = defaultdict(list)
    for call, name in pairs.tolist():
        found[call].append(host.names.op[name])
    return {call: frozenset(names) for call, names in found.items()}


def _nodes(capture_file: CaptureFile, functions: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the names of the nodes that each function has, as they were placed and as they ran."""
    found = {}
    for name in sorted(functions):
        function = capture_file.function(name)
        if function is None:
            continue
        names = {n for instance in function.instances for n in instance.input.names}
        for instance in function.instances:
            for partition in instance.partitions:
                names.update(partition.names)
        found[name] = frozenset(names)
    return found


def _best(
    names: frozenset[str], nodes: Mapping[str, frozenset[str]], of_steps: Collection[str]
) -> str:
    """Return the function that may have run some nodes and has the fewest others; "" for none.

    Of two that are equally good it is the one that feeds a step, which is the usual case.
    """
    able = [
        (len(own), function in of_steps, function)
        for function, own in nodes.items()
        if names <= own
    ]
    return min(able)[2] if able else ""


def _labels(functions: Iterable[str], taken: Iterable[str]) -> dict[str, str]:
    """Return functions by labels without TensorFlow's counter: `f`, and `f#2` for a second one."""
    used = set(taken)
    found = {}
    for function in sorted(functions, key=base_and_counter):
        base, _ = base_and_counter(function)
        label, number = base, 1
        while label in used:
            number += 1
            label = f"{base}#{number}"
        used.add(label)
        found[label] = function
    return found

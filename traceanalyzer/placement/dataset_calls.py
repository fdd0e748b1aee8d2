"""What tf.data places the functions of a dataset under.

See `CapturedFunction::Instantiate` (core/data/captured_function.cc): a function that a dataset
calls is a function of several devices like any other. Elements, and tensors that it captured, are
where the dataset is; a captured resource is where it lives. The dataset's device, a CPU as a rule,
is the function's default device. Two kinds have none, so that their ops prefer a GPU: what reduces
a dataset (data/reduce_dataset_op.cc), and the scan that AutoGraph makes of `for x in dataset` in a
`tf.function` (`use_default_device` of ScanDataset).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.placement.calls import Call, called_in
from traceanalyzer.placement.nodes import is_dataset
from traceanalyzer.placement.op_definitions import AttributesError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.capture_file.document import Attributes, CaptureFile
    from traceanalyzer.capture_file.function_records import Graph
    from traceanalyzer.placement.op_definitions import Argument, OpDefinition

# `StructuredFunctionWrapper` names functions after the method (data/ops/structured_function.py).
_OF_DATASETS: Final = "__inference_Dataset_"
_REDUCES: Final = "ReduceDataset"
_PREFETCHES: Final = "PrefetchDataset"
_ONE_CAPTURE_LIST: Final = ("other_arguments", "other_args")


def dataset_calls(
    definition: OpDefinition, attributes: Attributes, inputs: Sequence[str], device: str
) -> Iterator[tuple[str, Call]]:
    """Walk the functions that a dataset calls, each with what it is placed under.

    The arguments of a call are those that the function captured, the last ones it has.

    Args:
        definition: The op that makes the dataset, or reduces one.
        inputs: Where each of its inputs is if that is a resource, "" for others.
    """
    has_none = definition.name == _REDUCES or attributes.get("use_default_device") is False
    default = "" if has_none else device
    for name, attribute in definition.attributes.items():
        value = attributes.get(name)
        called = value.get("func") if isinstance(value, dict) else None
        if attribute.type == "func" and isinstance(called, str):
            captured = tuple(_captured(definition, name, attributes, inputs))
            yield called, Call(default, captured, frozenset(), results=device)


def _captured(
    definition: OpDefinition, function: str, attributes: Attributes, inputs: Sequence[str]
) -> Iterator[str]:
    """Walk where the tensors are that a function captured: an argument of the op lists them."""
    lists = {f"{function}_{words}" for words in _ONE_CAPTURE_LIST}
    named = {argument.name for argument in definition.inputs}
    wanted = lists & named or {*_ONE_CAPTURE_LIST} & named
    at = 0
    for argument in definition.inputs:
        count = _count(definition, argument, attributes)
        if argument.name in wanted:
            yield from inputs[at : at + count]
        at += count


def _count(definition: OpDefinition, argument: Argument, attributes: Attributes) -> int:
    try:
        return len(definition.types_of(argument, attributes))
    except AttributesError:
        return 1


def is_of_dataset(function: str) -> bool:
    """Return whether tf.data made a function, of the argument of `map` or a similar method."""
    return function.startswith(_OF_DATASETS)


def functions_of_datasets(capture_file: CaptureFile) -> frozenset[str]:
    """Return the functions that datasets of a program call, by what was recorded or their names."""
    eager = (
        capture_file.attribute_set(signature.attributes)
        for signature in capture_file.signatures
        if is_dataset(signature.op)
    )
    found = {name for attributes in eager for name in called_in(attributes.values())}
    for function in capture_file.functions:
        for instance in function.instances:
            graph = instance.input
            datasets = {op for op in set(graph.ops) if is_dataset(op)}
            for op, at in zip(graph.ops, graph.attributes, strict=True) if datasets else ():
                if op in datasets:
                    found.update(called_in(capture_file.attribute_set(at).values()))
    return frozenset(found) | {f.name for f in capture_file.functions if is_of_dataset(f.name)}


def functions_of_steps(capture_file: CaptureFile) -> frozenset[str]:
    """Return the functions of datasets that compute for a step, and do not only feed it.

    What reduces a dataset does, and the body of a loop over one. Functions of the datasets before
    that prepare input, but for those that are given a value of the function that makes the dataset:
    they may search candidates for it, for example. Prefetched data and data made outside are input.
    """
    found = {
        name
        for signature in capture_file.signatures
        if signature.op == _REDUCES
        for name in called_in(capture_file.attribute_set(signature.attributes).values())
    }
    of_datasets = functions_of_datasets(capture_file)
    left = [f.name for f in capture_file.functions if f.name not in of_datasets] + sorted(found)
    while left:
        function = capture_file.function(left.pop())
        for instance in () if function is None else function.instances:
            new = set(_computing(instance.input, capture_file)) - found
            found |= new
            left += sorted(new)
    return frozenset(found)


def _computing(graph: Graph, capture_file: CaptureFile) -> Iterator[str]:
    """Walk the functions of datasets that compute for the function whose graph this is."""
    left = [at for at, op in enumerate(graph.ops) if op == _REDUCES]
    seen = set(left)
    while left:
        node = left.pop()
        attributes = capture_file.attribute_set(graph.attributes[node])
        is_loop = graph.ops[node] == _REDUCES or attributes.get("use_default_device") is False
        sources = set(_sources(graph, node))
        if is_loop or any(_is_value(graph, source, capture_file) for source in sources):
            yield from called_in(attributes.values())
        before = {at for at in sources - seen if is_dataset(graph.ops[at])}
        seen |= before
        left += sorted(at for at in before if graph.ops[at] != _PREFETCHES)


def _sources(graph: Graph, node: int) -> Iterator[int]:
    """Walk where the inputs of a node come from, past the ends of inlined functions."""
    for source, _ in graph.sources(node):
        if graph.ops[source] == "Identity":
            yield from _sources(graph, source)
        else:
            yield source


def _is_value(graph: Graph, node: int, capture_file: CaptureFile) -> bool:
    """Return whether a node's output is computed in the function, or one of its arguments."""
    if graph.ops[node] == "_Arg":
        attributes = capture_file.attribute_set(graph.attributes[node])
        return attributes.get("T") not in {"resource", "variant"}
    return not is_dataset(graph.ops[node]) and any(graph.sources(node))

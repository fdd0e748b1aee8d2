"""Finds a replacement for a variable's or tensor's dtype that GPU kernels do not support.

A replacement must work in all TensorFlow versions from 2.12 on that have kernel tables.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

from traceanalyzer.capture_file.document import Attributes, CaptureFile, Json, Resource
from traceanalyzer.capture_file.function_records import Graph, split_input
from traceanalyzer.data_files import toml
from traceanalyzer.model import Fix
from traceanalyzer.placement.calls import argument_nodes
from traceanalyzer.placement.devices import GPU
from traceanalyzer.placement.kernel_types import (
    all_on_host,
    definition_of,
    python_name,
    values_taken,
)
from traceanalyzer.placement.registry import registries


class Target(NamedTuple):
    """A dtype to cast to, and the loss that the cast causes ("" if none)."""

    dtype: str
    loss: str
    is_exact: bool  #: whether it keeps all values

    @property
    def in_brackets(self) -> str:
        """The loss in parentheses, after a space, or "" if there is none."""
        return f" ({self.loss})" if self.loss else ""


# See https://www.tensorflow.org/xla/known_issues, "tf.Variable on a different device".
XLA_REFUSES: Final = (
    " XLA uses only variables in GPU memory: on a GPU, a function with jit_compile=True that uses "
    "an int32 variable fails with `Trying to access resource ... located in device CPU:0`."
)
#: By type, the types that can store its values, the most exact first.
TARGETS: Final = {
    dtype: tuple(Target(*each) for each in found)
    for dtype, found in toml("placement/data/retyping.toml")["targets"]["types"].items()
}


# Ops whose results are counts, at most as many as there are values.
COUNTS: Final = frozenset({"Bincount", "DenseBincount", "HistogramFixedWidth", "RaggedBincount"})
_POSITIONS: Final = frozenset({"ArgMax", "ArgMin"})
_NEW_DTYPE: Final = re.compile(r"\btf\.(\w+)(?!\()\b")


def keeps_result(op: str, old: Json, code: str) -> bool:
    """Return whether code that changes a dtype, such as `dtype=tf.int32`, keeps all results."""
    dtypes = {each for each in _NEW_DTYPE.findall(code) if each != "cast"}
    exact = {python_name(each.dtype) for each in TARGETS.get(str(old), ()) if each.is_exact}
    if op in COUNTS | _POSITIONS:  # below 2**31
        exact |= {"int32"}
    return dtypes <= exact


def works_as(op: str, given: Mapping[str, Json], attributes: Collection[str], value: Json) -> bool:
    """Return whether a GPU can compute a node in all versions if `attributes` are `value`."""
    changed = {**given, **dict.fromkeys(attributes, value)}
    for registry in registries():
        definition, kernel = registry.definition(op), registry.find(op, GPU, changed)
        if definition is None:
            continue
        is_of_data = definition.has_argument_of(attributes)
        if kernel is None or (is_of_data and all_on_host(kernel, definition, changed)):
            return False
    return True


def variable_fix(dtype: str, types: Collection[str] | None) -> Fix:
    """Return the fix for a variable whose type has no GPU kernel: another type, or a cast."""
    taken = values_taken("VarHandleOp", "dtype", "int32")
    for target in TARGETS.get(dtype, ()):
        if target.dtype in taken and (types is None or target.dtype in types):
            new = python_name(target.dtype)
            return Fix(
                title=f"Create the variable as {new}",
                text=(
                    f"Create the variable as {new}{target.in_brackets}. Use the same dtype for "
                    "values that are assigned to it or combined with it."
                ),
                code=f"tf.Variable(value, dtype=tf.{new})",
                checked=types is not None,
            )
    return Fix(
        title="Cast the variable's value once per step",
        text=(
            "No other dtype suits all ops that use the variable. Keep it on the CPU, and cast its "
            "value once per step, before you compute with it."
        ),
    )


READS: Final = frozenset({"ReadVariableOp", "ResourceGather", "ResourceGatherNd"})
_MOST: Final = 200  # uses of one variable


class _Use(NamedTuple):
    """An op that uses a variable, and the name of the attribute for the variable's dtype."""

    op: str
    attributes: Attributes
    name: str


class VariableUses:
    """Finds dtypes that suit all uses of a variable in a captured program."""

    def __init__(self, capture_file: CaptureFile) -> None:
        self._capture_file = capture_file
        self._consumers: dict[int, dict[str, list[tuple[int, int]]]] = {}
        self._types: dict[int, tuple[str, ...] | None] = {}  # of resources

    def types_of_resource(self, resource: Resource) -> tuple[str, ...] | None:
        """Return the dtypes for which all ops that use a variable have GPU kernels.

        The most exact is first. Return None if no use can be checked, or if there are too many.
        """
        if id(resource) not in self._types:
            self._types[id(resource)] = _types(resource.dtype, self._of_resource(resource))
        return self._types[id(resource)]

    def types_of_node(self, graph: Graph, node: int, dtype: str) -> tuple[str, ...] | None:
        """Return suitable dtypes for a variable that a node creates; see `types_of_resource`."""
        return _types(dtype, self._of_node(graph, node, dtype))

    def _of_resource(self, resource: Resource) -> Iterator[_Use]:
        capture_file, dtype = self._capture_file, resource.dtype
        for signature in capture_file.signatures:
            given = map(capture_file.resource_of, signature.inputs)
            bound = [at for at, each in enumerate(given) if each is resource]
            if bound and not signature.is_function:
                known = capture_file.attribute_set(signature.attributes)
                yield from _use(signature.op, known, dtype)
            function = capture_file.function(signature.op) if bound else None
            for instance in () if function is None else function.instances:
                arguments = argument_nodes(instance.input, capture_file.attributes)
                for at in bound:
                    if at in arguments:
                        yield from self._of_node(instance.input, arguments[at], dtype)

    def _of_node(self, graph: Graph, node: int, dtype: str) -> Iterator[_Use]:
        for user, _ in self._taking(graph, node):
            op = graph.ops[user]
            yield from _use(op, self._capture_file.attribute_set(graph.attributes[user]), dtype)
            for taker, slot in self._taking(graph, user) if op in READS else ():
                known = self._capture_file.attribute_set(graph.attributes[taker])
                name = attribute_at(graph.ops[taker], known, slot)
                if known.get(name) == dtype:
                    yield _Use(graph.ops[taker], known, name)

    def _taking(self, graph: Graph, node: int) -> list[tuple[int, int]]:
        """Return the consumers of a node's output, each with the index of the consuming input."""
        if id(graph) not in self._consumers:
            known = self._consumers[id(graph)] = defaultdict(list)
            for taker, inputs in enumerate(graph.inputs):
                for slot, text in enumerate(inputs):  # control edges match no node's name
                    known[split_input(text)[0]].append((taker, slot))
        return self._consumers[id(graph)][graph.names[node]]


def _use(op: str, attributes: Attributes, dtype: str) -> Iterator[_Use]:
    name = "dtype" if "dtype" in attributes else "T"
    if attributes.get(name) == dtype:
        yield _Use(op, attributes, name)


def attribute_at(op: str, attributes: Attributes, slot: int) -> str:
    """Return the name of the attribute that gives the dtype of input `slot`, or "" if unknown."""
    definition = definition_of(op)
    for argument in () if definition is None else definition.inputs:
        if argument.type_list_attr:
            return ""
        number = attributes.get(argument.number_attr) if argument.number_attr else 1
        if not isinstance(number, int):
            return ""
        if slot < number:
            return argument.type_attr
        slot -= number
    return ""


def _types(dtype: str, uses: Iterable[_Use]) -> tuple[str, ...] | None:
    types = [target.dtype for target in TARGETS.get(dtype, ())]
    checked = list(islice(uses, _MOST + 1))
    if len(checked) > _MOST:
        return None
    suiting = (
        {t for t in types if works_as(use.op, use.attributes, (use.name,), t)}
        for use in checked
        if registries()[-1].kernels(use.op)
    )
    found = [suits for suits in suiting if suits]
    return tuple(t for t in types if all(t in each for each in found)) if found else None

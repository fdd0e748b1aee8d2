"""Inlines the functions that a graph calls, as TensorFlow does before placing the graph.

See `LowerFunctionalOpsPass` (core/common_runtime/lower_functional_ops.cc) and `InlineFunctionBody`
(inline_function_utils.cc). The ops that control a loop or a branch, such as `Enter` and `Switch`,
are left out, because they do not affect where other ops run.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from traceanalyzer.capture_file.document import Attributes, Json
from traceanalyzer.capture_file.function_records import FunctionBody, Graph, split_input
from traceanalyzer.capture_file.graph_def import AttributePool, graph_of
from traceanalyzer.placement.calls import FORWARDED, called_in
from traceanalyzer.placement.kernel_tables import AttributesError
from traceanalyzer.placement.nodes import ARGUMENTS, classes_of
from traceanalyzer.placement.registry import Registry

# What TensorFlow adds to the name of a call, a loop, or a branch for the functions it calls.
_ADDED: Final = {
    "f": "",
    "cond": "/cond",
    "body": "/body",
    "then_branch": "/then",
    "else_branch": "/else",
    "branches": "/branch{}",
}
_LOWERS: Final = "_lower_using_switch_merge"  # an attribute of loops and branches
_COMPILES: Final = "_XlaMustCompile"
_MOST_NODES: Final = 200_000  # functions that call others twice double the graph at each level


class Lowered(NamedTuple):
    """A graph in which function calls, loops, and branches are inlined."""

    graph: Graph
    requests: Mapping[str, str]  #: the requested devices of the calls, by their names


class _FunctionToInline(NamedTuple):
    name: str  # its nodes' prefix, without the slash
    function: str
    device: str  # requested for the call
    inputs: tuple[str, ...]
    ends: list[str]  # names of the nodes that have its results


class _Names(NamedTuple):
    """The names of a graph's nodes after inlining."""

    graph: Graph
    prefix: str
    #: By name of an argument or a call, the nodes that replace its outputs.
    replaced: Mapping[str, list[str]]


@dataclass(kw_only=True)
class Lowering:
    """Inlines the function calls, loops, and branches of one graph."""

    library: Mapping[str, FunctionBody]
    pool: AttributePool
    registry: Registry
    #: Known names of calls (`while/body/_7`), keyed by the name without its number
    #: (`while/body/_`). The numbers of other calls differ from TensorFlow's.
    numbered: Mapping[str, str]
    _rows: list[tuple[Any, ...]] = field(default_factory=list)
    _devices: dict[str, str] = field(default_factory=dict)  # requested, of the nodes so far
    _requests: dict[str, str] = field(default_factory=dict)
    _waiting: deque[_FunctionToInline] = field(default_factory=deque)
    _numbers: int = 0

    def lower(self, graph: Graph) -> Lowered:
        """Return a copy of the graph with calls inlined."""
        self._add(graph, _FunctionToInline("", "", "", (), []), {})
        while self._waiting:
            call = self._waiting.popleft()
            body = self.library[call.function]
            arguments = [at for at, op in enumerate(body.graph.ops) if op in ARGUMENTS]
            given = {}
            for at, source in zip(arguments, call.inputs, strict=False):
                name = self._name(f"Func/{call.name}/input")
                self._identity(name, source, self._set(body.graph, at).get("T"))
                given[body.graph.names[at]] = [name]
            names = self._add(body.graph, call, given)
            for end, result, dtype in zip(call.ends, body.results, body.types, strict=False):
                self._identity(end, self._source(names, result), dtype)
        return Lowered(replace(graph_of(self._rows), producer=graph.producer), self._requests)

    def _add(self, graph: Graph, call: _FunctionToInline, given: Mapping[str, list[str]]) -> _Names:
        """Add a graph's nodes, and queue the functions that it calls."""
        prefix = f"{call.name}/" if call.name else ""
        is_full = len(self._rows) + len(graph) > _MOST_NODES
        functions = {
            at: [*self._functions(graph, at, prefix)] for at in range(len(graph)) if not is_full
        }
        functions = {at: found for at, found in functions.items() if found}
        ends = {
            at: [
                [self._name(f"Func/{name}/output") for _ in self.library[function].results]
                for name, function in found
            ]
            for at, found in functions.items()
        }
        # The last function of a loop is its body. The results of branches agree in their types.
        made = {graph.names[at]: of_functions[-1] for at, of_functions in ends.items()}
        names = _Names(graph, prefix, {**given, **made})
        for at, (node, op) in enumerate(zip(graph.names, graph.ops, strict=True)):
            if node in given:
                continue
            inputs = tuple(filter(None, (self._source(names, text) for text in graph.inputs[at])))
            device = graph.devices[at] or call.device
            if at in functions:
                inputs = tuple(i for i in inputs if not i.startswith("^"))[FORWARDED[op] :]
                if graph.devices[at]:
                    self._requests |= dict.fromkeys(
                        (name for name, _ in functions[at]), graph.devices[at]
                    )
                for (called, function), own in zip(functions[at], ends[at], strict=True):
                    self._waiting.append(_FunctionToInline(called, function, device, inputs, own))
                continue
            origin = (call.function, node) if prefix else ("", "")
            attributes = self._prefixed(names, at)
            self._rows.append((prefix + node, op, inputs, device, attributes, *origin))
            self._devices[prefix + node] = device
        return names

    def _functions(self, graph: Graph, at: int, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield the name and the function of each inlinable call that a node makes."""
        op, known = graph.ops[at], self._set(graph, at)
        is_call = op.endswith("PartitionedCall")
        if op not in FORWARDED or known.get(_COMPILES) or not (is_call or known.get(_LOWERS)):
            return
        found = [
            (added, place, function)
            for attribute, added in _ADDED.items()
            for place, function in enumerate(called_in([known.get(attribute)]))
        ]
        bodies = [self.library.get(function) for _, _, function in found]
        if all(body is not None and body.is_inlined for body in bodies):
            for added, place, function in found:
                name = f"{prefix}{graph.names[at]}{added.format(place)}"
                yield self._name(name) if added else name, function

    def _identity(self, name: str, source: str, dtype: Any) -> None:  # noqa: ANN401 - JSON
        """Add an `Identity` node for an argument or a result of an inlined function."""
        maker = split_input(source)[0]
        attributes = self.pool.add({"T": dtype, "_class": [{"s": f"loc:@{maker}"}]})
        device = self._devices.get(maker, "") if "/input/_" in name else ""
        self._rows.append(
            (name, "Identity", (source,) if source else (), device, attributes, "", "")
        )
        self._devices[name] = device

    def _source(self, names: _Names, text: str) -> str:
        """Translate an input of a function's node, such as `node:output:2`, or return ""."""
        name, _, output = text.lstrip("^").partition(":")
        mark = "^" if text.startswith("^") else ""
        number = self._number(names.graph, name, output)
        if name in names.replaced:
            ends = names.replaced[name]
            return mark + ends[number] if number < len(ends) else ""
        return f"{mark}{names.prefix}{name}{f':{number}' if number else ''}"

    def _number(self, graph: Graph, name: str, output: str) -> int:
        """Return the index of an output, given as `2` in a graph or `values:2` in a function."""
        argument, is_of_function, number = output.rpartition(":")
        before = 0
        node = graph.index(name)
        definition = self.registry.definition(graph.ops[node]) if node >= 0 else None
        if is_of_function and definition is not None and len(definition.outputs) > 1:
            known = definition.complete(self._set(graph, node))
            for each in definition.outputs:
                if each.name == argument:
                    break
                with suppress(AttributesError):
                    before += len(definition.types_of(each, known))
        return before + split_input(f"{name}:{number}")[1]

    def _set(self, graph: Graph, at: int) -> Attributes:
        return self.pool.sets[graph.attributes[at]]

    def _prefixed(self, names: _Names, at: int) -> int:
        """Return a node's attribute set, with the prefix of its call added to colocation groups."""
        graph, known = names.graph, self._set(names.graph, at)
        groups = classes_of(known) if names.prefix else ()
        if not groups:
            return graph.attributes[at]
        renamed: Json = [
            {"s": f"loc:@{names.prefix if graph.index(each) >= 0 else ''}{each}"} for each in groups
        ]
        return self.pool.add({**known, "_class": renamed})

    def _name(self, text: str) -> str:
        self._numbers += 1
        return self.numbered.get(f"{text}/_", f"{text}/_{self._numbers}")

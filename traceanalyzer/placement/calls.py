"""Which functions a program's functions call, and what a call places a function under."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from traceanalyzer.capture_file.document import Attributes, CaptureFile, Function, Graph, Json

# Ops whose n-th input is the n-th argument of the function they call; how many come before.
FORWARDED: Final = {
    "PartitionedCall": 0,
    "StatefulPartitionedCall": 0,
    "While": 0,
    "StatelessWhile": 0,
    "If": 1,
    "StatelessIf": 1,
    "Case": 1,
    "StatelessCase": 1,
}


# function_optimizer.cc, UniqueSpecializedFunctionName: behind it the call's node and function.
_SPECIALIZED: Final = "_specialized_for_"


class Call(NamedTuple):
    """A call of a function, and what its graph is placed under."""

    default_device: str  #: where the call was placed, "" for a session, which has no default device
    #: Where each argument is, by index; "" or left out where that is not known. Of a call by a
    #: dataset, those of the function's last arguments.
    arguments: tuple[str, ...] = ()
    guessed: frozenset[int] = frozenset()  #: indices of the arguments whose place is a guess
    #: The signature of the capture file that calls it, None for a call by a function.
    signature: int | None = None
    doubt: str = ""  #: what is not known about it, or ""
    #: The dataset's device, for a call by one: elements and results are there. "" for other calls.
    results: str = ""


def calls_of(graph: Graph, attributes: Sequence[Attributes]) -> Iterator[tuple[int, str]]:
    """Walk the nodes of a graph that call functions, each with the name of one it calls."""
    by_set: dict[int, tuple[str, ...]] = {-1: ()}
    for node, at in enumerate(graph.attributes):
        if at not in by_set:
            by_set[at] = tuple(_called(attributes[at].values()))
        for name in by_set[at]:
            yield node, name


def _called(values: Iterable[Json]) -> Iterator[str]:
    """Walk the functions that attributes name."""
    for value in values:
        if isinstance(value, list):
            yield from _called(value)
        elif isinstance(value, dict) and isinstance(name := value.get("func"), str):
            yield name


def called_as(function: str) -> str:
    """Return the name by which a function is called where grappler made one for a single call."""
    return function.partition(_SPECIALIZED)[0]


def callers_first(capture_file: CaptureFile) -> list[Function]:
    """Return a program's functions, those that call others before them."""
    by_name = {f.name: f for f in capture_file.functions}
    made_of: dict[str, list[str]] = {}
    for name in by_name:
        made_of.setdefault(called_as(name), []).append(name)
    order: list[Function] = []
    seen: set[str] = set()
    for start in by_name:
        stack = [(start, False)]
        while stack:
            name, is_done = stack.pop()
            if is_done:
                order.append(by_name[name])
            elif name not in seen:
                seen.add(name)
                stack.append((name, True))
                graphs = (instance.input for instance in by_name[name].instances)
                inner = {c for graph in graphs for _, c in calls_of(graph, capture_file.attributes)}
                named = {name for c in inner for name in (c, *made_of.get(c, ()))}
                stack += [(c, False) for c in sorted(named & by_name.keys()) if c not in seen]
    return order[::-1]

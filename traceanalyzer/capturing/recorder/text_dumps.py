"""Converts the text dumps of TensorFlow 2.12 to the format of later versions.

The names of these files do not contain function names, so a function is recognized by the names of
its nodes and the time of the dump. A graph that matches no known function belongs to an eager op.
"""

from __future__ import annotations

import os
import re
from typing import Any, Iterator, Mapping

from .dumps import SESSION, session_graph
from .hooks import JournalWriter, loaded


def convert(  # noqa: PLR0913, PLR0917
    folder: str,
    names: set[str],
    of_graph: Mapping[str, int],
    definitions: Mapping[str, frozenset[str]],
    called_at: Mapping[str, float],
    journal: JournalWriter,
) -> None:
    """Convert text dumps to protos. Only the program's own protobuf can convert all of them.

    `definitions` maps functions to the names of their nodes. `called_at` maps them to the time of
    their first call, in seconds since 1970.
    """
    for index, name in enumerate(sorted(n for n in names if "placer_input" in n)):
        answer = name.replace("placer_input", "placer_output")
        with journal.guard("a graph"):
            graph = _read(os.path.join(folder, name))
            functions = list(_functions_of({node.name for node in graph.node}, definitions))
            function = _instantiated(functions, called_at, _time_of(name))
            if name in of_graph:
                function = session_graph(of_graph[name])
            elif "" in functions:
                function = SESSION
            if function and answer in names:  # without an answer, it could not be placed
                # Named as newer versions name their dumps.
                begin = os.path.join(folder, function.replace("/", "_"))
                _write(f"{begin}placer_input_{index}.pb", graph)
                _write(f"{begin}placer_output_{index}.pb", _read(os.path.join(folder, answer)))


def _read(path: str) -> Any:
    from google.protobuf import text_format

    graph_pb2 = loaded("tensorflow.core.framework.graph_pb2")
    with open(path, encoding="utf-8", errors="replace") as file:
        return text_format.Parse(file.read(), graph_pb2.GraphDef())


def _write(path: str, graph: Any) -> None:
    with open(path, "wb") as file:
        file.write(graph.SerializeToString())


def _functions_of(nodes: set[str], definitions: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """Yield the functions that a graph may belong to, in the order of their definitions.

    TensorFlow inlines called functions and prunes nodes, but the graph still contains most of the
    function's own nodes. A function that is traced again has the same node names.
    """
    shares = {name: len(own & nodes) / len(own) for name, own in definitions.items() if own}
    best = max(shares.values(), default=0.0)
    return (name for name, share in shares.items() if share == best > 0.5)  # noqa: PLR2004


def _instantiated(functions: list[str], called_at: Mapping[str, float], time: float) -> str:
    """Return the function with the latest first call before a time.

    If the program called none of them, as with functions of datasets, return the last, or "".
    """
    called = [(called_at[name], name) for name in functions if called_at.get(name, time) < time]
    return max(called)[1] if called else functions[-1] if functions else ""


def _time_of(name: str) -> float:
    """Return the time in the name of a dump, in seconds since 1970."""
    found = re.search(r"-([0-9a-f]+)_?placer_input", name)  # Env::CreateUniqueFileName
    return int(found[1], 16) / 1e6 if found else 0.0

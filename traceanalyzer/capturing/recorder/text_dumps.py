"""Converts the text dumps of TensorFlow 2.12 to the format of later versions.

TensorFlow 2.12 numbers the files (`pflr_optmz_...`), so a function is identified by the names of
its nodes and by the time. A graph that matches no function belongs to an eager op.
"""

from __future__ import annotations

import os
import re
from typing import Any, Iterator, Mapping

from .dumps import SESSION, session_graph
from .hooks import Journal, loaded


def convert(  # noqa: PLR0913, PLR0917
    folder: str,
    names: set[str],
    of_graph: Mapping[str, int],
    definitions: Mapping[str, frozenset[str]],
    called_at: Mapping[str, float],
    journal: Journal,
) -> None:
    """Write text dumps as protos, here because only the program's own protobuf can read them all.

    `definitions` contains the node names of each function, `called_at` the times of first calls in
    seconds.
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
            if function and answer in names:  # no answer: it could not be placed
                # As TensorFlow names files.
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
    """Yield the functions whose nodes a graph contains, in the order of their definitions.

    TensorFlow has inlined called functions and pruned unused nodes; most of the function's own
    nodes are still there under their names. Several functions can match, because a function that
    is traced again has the same node names.
    """
    shares = {name: len(own & nodes) / len(own) for name, own in definitions.items() if own}
    best = max(shares.values(), default=0.0)
    return (name for name, share in shares.items() if share == best > 0.5)  # noqa: PLR2004


def _instantiated(functions: list[str], called_at: Mapping[str, float], time: float) -> str:
    """Return the function that was instantiated at a time, by its first call.

    If none was called by the program (datasets call theirs), return the last; "" if there is none.
    """
    called = [(called_at[name], name) for name in functions if called_at.get(name, time) < time]
    return max(called)[1] if called else functions[-1] if functions else ""


def _time_of(name: str) -> float:
    """Return when a dump was written, in seconds: its name ends with the microseconds."""
    found = re.search(r"-([0-9a-f]+)_?placer_input", name)  # Env::CreateUniqueFileName
    return int(found[1], 16) / 1e6 if found else 0.0

"""Tells apart the graphs that sessions of TensorFlow 1 ran: a trace names none of them.

Graphs of one program often have nodes of the same names. Before each run of a session the recorder
leaves a marker in the trace that names the graph.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.capture_file.document import SESSION, is_session
from traceanalyzer.tables.program_calls import SESSION_RUN
from traceanalyzer.tables.text_columns import relabelled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.capture_file.document import CaptureFile
    from traceanalyzer.tables.host_ops import HostOps
    from traceanalyzer.trace.columns import Strings


_MARKER: Final = "traceanalyzer:session"
_LABEL: Final = "session graph "
_NO_CALL: Final = 0  # see `HostOps.call`


def is_session_graph(function: str) -> bool:
    """Return whether a function of the op table is the graph of a session."""
    return function.startswith(_LABEL)


def with_session_graphs(host: HostOps, capture_file: CaptureFile) -> HostOps:
    """Name the graphs of sessions as functions, where a program has several.

    Args:
        host: The op occurrences of a host, where the ops of sessions have no function.
        capture_file: What was recorded beside the trace.
    """
    names = {each.name for each in capture_file.session_graphs()}
    names |= {d.name or SESSION for d in capture_file.definitions if is_session(d.name or SESSION)}
    if len(names) < 2:  # noqa: PLR2004 - one graph needs no name
        return host
    graph_of_run = _graphs_of_runs(host)
    graphs = {g: SESSION if g == 0 else f"{SESSION}#{g}" for g in set(graph_of_run.values())}
    labels = {f"{_LABEL}{g + 1}": name for g, name in sorted(graphs.items()) if name in names}
    if not labels:
        return host
    values = (*host.function.values, *labels)
    code = {name: len(host.function.values) + at for at, name in enumerate(labels.values())}
    code_of_call = {
        run: code[graphs[graph]] for run, graph in graph_of_run.items() if graphs[graph] in code
    }

    def named(functions: Strings, calls: NDArray[np.int64]) -> Strings:
        unnamed = np.where(functions.codes < 0, calls, _NO_CALL)
        return relabelled(functions, unnamed, code_of_call, values)

    return replace(
        host,
        function=named(host.function, host.call),
        definitions=host.definitions | labels,
        function_of_event=named(host.function_of_event, host.call_of_event),
    )


def _graphs_of_runs(host: HostOps) -> dict[int, int]:
    """Return the number of the graph of each run of a session, by the run's step id."""
    plane, order = host.plane, host.order
    graph, step = plane.integers("graph"), plane.integers("id")
    rank = np.empty(len(plane), np.int64)
    rank[order] = np.arange(len(order))
    markers = plane.named(_MARKER)
    markers = markers[np.argsort(rank[markers])]
    runs = plane.named(SESSION_RUN)
    runs = runs[step.present[runs] & (step.values[runs] != _NO_CALL)]
    if not len(markers):
        return {}
    before = np.searchsorted(rank[markers], rank[runs]) - 1
    marker = markers[before.clip(0)]
    is_told = (before >= 0) & graph.present[marker]
    is_told &= plane.line_of[marker] == plane.line_of[runs]
    ids, numbers = step.values[runs[is_told]], graph.values[marker[is_told]]
    return dict(zip(ids.tolist(), numbers.tolist(), strict=True))

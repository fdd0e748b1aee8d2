"""The critical path through a step: what each moment of it waited for, back from its end.

The walk that explains idle time, but through the devices too: where a thread waited for a device it
goes on with what that finished last; from a kernel or transfer to what the device finished before,
or to the launch, whichever was later. Where the path computes, the device is the bottleneck; where
it is on the host, making that shorter makes the step shorter, until another path is as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import networkx as nx
import numpy as np

from traceanalyzer.tables.thread_activity import Launches
from traceanalyzer.timeline.phase import Phase
from traceanalyzer.timeline.walk import Spans, threads_of_steps, walk_back, walk_through_devices

if TYPE_CHECKING:
    import pandas as pd

    from traceanalyzer.tables.host_tables import HostTables
    from traceanalyzer.timeline.device_parts import HostTimeline
    from traceanalyzer.timeline.walk import Parts


def critical_path(tables: HostTables, timeline: HostTimeline, steps: pd.DataFrame) -> Parts:
    """Return what each moment of some steps waited for.

    Args:
        tables: The host's tables.
        timeline: What its devices did.
        steps: The steps, rows of its step table.

    Returns:
        Parts that cover each step from its begin to its end, by time. They are about the thread
        that marked the step, or else the program's own: the step ends when that says so.
    """
    start = steps["start_ps"].to_numpy(np.int64)
    end = start + steps["duration_ps"].to_numpy(np.int64).clip(0)
    itself = np.ones(len(start), np.bool_)
    spans = Spans(start, end, Launches(threads_of_steps(tables.threads, start), end, end, itself))
    if timeline.work is None:
        return walk_back(spans, tables.threads, None)
    return walk_through_devices(spans, tables.threads, timeline.work)


def path_graph(path: Parts, ops: pd.DataFrame) -> nx.DiGraph[int]:
    """Return a path as a graph: a node a part, an edge from what was waited for to what waited.

    Args:
        path: As from `critical_path`.
        ops: The host's op table.

    Returns:
        Nodes are numbered by time and carry `phase`, `op_id` (empty for none), `label`, `start_ps`
        and `duration_ps`.
    """
    graph: nx.DiGraph[int] = nx.DiGraph()
    ids = [*ops["op_id"], ""]
    labels = [*(ops["name"].astype(str) + ":" + ops["type"].astype(str)), ""]
    columns = (path.start_ps, path.duration_ps, path.phase, path.row)
    for k, (start, took, phase, row) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        name = Phase(phase).name.lower()
        graph.add_node(
            k,
            phase=name,
            op_id=ids[row],
            label=labels[row] or name,
            start_ps=start,
            duration_ps=took,
        )
    joined = np.flatnonzero(path.start_ps[1:] == path.end_ps[:-1])
    graph.add_edges_from((k, k + 1) for k in joined.tolist())
    return graph

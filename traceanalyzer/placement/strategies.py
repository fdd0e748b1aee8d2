"""Finds the functions whose devices a `tf.distribute` strategy may have requested."""

from collections.abc import Iterator

from traceanalyzer.model import Certainty
from traceanalyzer.placement.devices import asks_for_cpu
from traceanalyzer.placement.inference import REPLICA
from traceanalyzer.placement.nodes import ARGUMENTS, RESULTS
from traceanalyzer.placement.program import ProgramPlacement


def by_strategies(
    program: ProgramPlacement, *, is_distributed: bool
) -> Iterator[tuple[str, Certainty]]:
    """Yield each function whose devices a `tf.distribute` strategy may request, and the certainty.

    A strategy marks the ops of its replicas by name (python/distribute/mirrored_run.py), and
    requests devices by full names, as `tf.device(x.device)` does. Devices of ops that use
    variables or tables do not count.
    """
    for name, placements in program.functions.items():
        for placement in (each.placement for each in placements):
            graph, bound = placement.nodes.graph, placement.bound
            resources = {bound[at] for at, op in enumerate(graph.ops) if op in ARGUMENTS}
            users = {at for at, root in bound.items() if root in resources}
            scopes = {scope for at in users if (scope := graph.names[at].rpartition("/")[0])}
            is_full = any(
                device.startswith("/job:") and asks_for_cpu(device)
                for at, device in enumerate(graph.devices)
                if at not in users and graph.names[at].rpartition("/")[0] not in scopes
                if graph.ops[at] not in RESULTS
            )
            if any(map(REPLICA.search, graph.names)):
                yield name, "likely"
            elif is_full:
                yield name, "likely" if is_distributed else "possible"

"""What the runs of a TensorFlow 1 session did: all of them have one name in a trace.

The step id leads from a run to the ops that executors ran for it, on other threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from traceanalyzer.tables.program_calls import SESSION_RUN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traceanalyzer.tables.host_ops import HostOps
    from traceanalyzer.tables.program_calls import ProgramCalls


_ASYNC_OP: Final = "ExecutorState::ProcessAsync::Start"  # its stat `kernel_type` tells the op
_ENQUEUES: Final = "QueueEnqueue"  # also `QueueEnqueueMany`; a version may follow
_NONE: Final = -1


class SessionRuns(NamedTuple):
    """What is known of each dispatch that is a session's run.

    Attributes:
        op: A number for the op of the run that its thread's runs have most often in common, -1
            for no op; of a dispatch that is no run -1, too. int64.
        is_run: Whether it is a session's run.
        enqueues: Whether it puts something into a queue.
    """

    op: NDArray[np.int64]
    is_run: NDArray[np.bool_]
    enqueues: NDArray[np.bool_]


def session_runs(host: HostOps, found: ProgramCalls) -> SessionRuns | None:
    """Tell a session's runs apart.

    TensorFlow stops tracing an op that turns out to be cheap, so two runs of the same ops need not
    show the same. The op that most runs of a thread show is there throughout.

    Args:
        host: The ops of the host plane.
        found: What its threads set going.

    Returns:
        None where no session ran.
    """
    if SESSION_RUN not in found.labels:
        return None
    is_run = found.label == found.labels.index(SESSION_RUN)
    ids = host.plane.integers("id")
    is_run &= ids.present[found.event]
    runs = np.flatnonzero(is_run)
    runs = runs[np.argsort(ids.values[found.event[runs]], kind="stable")]
    step = ids.values[found.event[runs]]

    def run_of(steps: NDArray[np.int64]) -> NDArray[np.int64]:
        if not len(step):
            return np.full(len(steps), _NONE, np.int64)
        at = np.searchsorted(step, steps).clip(0, len(step) - 1)
        return np.where(step[at] == steps, runs[at], _NONE)

    enqueues = np.zeros(len(found), np.bool_)
    types = np.array([t.startswith(_ENQUEUES) for t in host.names.type], np.bool_)
    enqueues[_present(run_of(host.call[types[host.name]]))] = True
    begun = host.plane.named(_ASYNC_OP)
    if len(begun) and host.plane.has_stat("kernel_type"):
        kernel = host.plane.strings("kernel_type")
        puts = np.array([*(v.startswith(_ENQUEUES) for v in kernel.values), False], np.bool_)
        begun = begun[puts[kernel.codes[begun]]]
        enqueues[_present(run_of(host.plane.integers("step_id").values[begun]))] = True

    op = np.full(len(found), _NONE, np.int64)
    run, name = run_of(host.call), host.name.astype(np.int64)
    kept = (run >= 0) & (host.transfer < 0)
    if kept.any():
        pairs = np.unique(np.stack([run[kept], name[kept]], axis=1), axis=0)
        line = found.line[pairs[:, 0]].astype(np.int64)
        _, inverse, times = np.unique(
            np.stack([line, pairs[:, 1]], axis=1), axis=0, return_inverse=True, return_counts=True
        )
        order = np.lexsort((pairs[:, 1], times[inverse.reshape(-1)], pairs[:, 0]))
        op[pairs[order, 0]] = pairs[order, 1]  # of several for a run the last one stays
    return SessionRuns(op, is_run, enqueues)


def _present(runs: NDArray[np.int64]) -> NDArray[np.int64]:
    return runs[runs >= 0]

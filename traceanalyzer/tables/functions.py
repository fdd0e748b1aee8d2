"""The function that each event of a host ran in.

A trace names the functions that Python calls. It does not name those that tf.data calls, nor the
graphs that sessions of TensorFlow 1 run: where there is a capture file, the ops that ran identify
them, or the recorder's markers do.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.capture_file.document import SESSION, is_session
from traceanalyzer.placement.calls import functions_of_datasets, functions_of_steps
from traceanalyzer.tables.arrays import innermost, mask, named_like, pick, place_of
from traceanalyzer.tables.vocabulary import CAPTURED_FUNCTION, FUNCTION_RUN, SESSION_RUN, Kind
from traceanalyzer.trace.strings import Strings

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from numpy.typing import NDArray

    from traceanalyzer.capture_file.document import CaptureFile
    from traceanalyzer.tables.host_ops import HostOps
    from traceanalyzer.tables.vocabulary import Names
    from traceanalyzer.trace.columns import Plane

TF_DATA: Final = "tf.data"  # in the column `function`: what a pipeline calls
DATASET_LOOP: Final = "loop over a dataset"  # what reduces a dataset within a step
CONSTANTS: Final = "constant folding"  # what TensorFlow computes while it makes a graph ready

_FUNCTION: Final = re.compile(r"__(?:inference|forward|backward)_(?:__inference_)?(.*?)(?:_(\d+))?")
# log_memory.h, CONSTANT_FOLDING_STEP_ID: the step of whatever graph_runner.cc runs, for
# constant_folding.cc and eval_const_tensor.cc. No call of a function has it.
_FOLDING_STEP: Final = -1
# reduce_dataset_op.cc: the op, and the stages of the dataset that it reduces.
_OF_REDUCE: Final = re.compile(r"ReduceIterator::|ReduceDatasetOp::DoCompute$")
_LOOPS: Final = re.compile(r"ReduceDatasetOp::DoCompute|ReduceIterator::(?:.*::)?Scan(?:\[\d+\])?")
_SESSION_MARKER: Final = "traceanalyzer:session"  # the recorder's, before each run of a session
_SESSION_LABEL: Final = "session graph "
_NO_CALL: Final = 0  # see `HostOps.call`


def called_functions(
    plane: Plane,
    names: Names,
    kind: NDArray[np.uint8],
    order: NDArray[np.int64],
    executor: NDArray[np.int64],
) -> tuple[Strings, dict[str, str]]:
    """Name the function that each event ran in; `tf.data` where a pipeline called it.

    On the calling thread the function is the enclosing call's. Elsewhere the step id identifies it:
    the executor's turn has it, and so has the `FunctionRun` within the call. What is computed to
    make a graph ready has a step of its own, also within the call that it is done for.

    Returns:
        The functions, without TensorFlow's counter, and the full name of each.
    """
    labels, label_of_name = _labels(names)
    call = innermost(plane, order, kind == Kind.FUNCTION_CALL)
    label = pick(label_of_name, pick(plane.name_of, call))
    tf_data, constants, loop = range(len(labels), len(labels) + 3)

    step = plane.integers("id")
    runs = plane.named(FUNCTION_RUN)
    runs = runs[step.present[runs] & (label[runs] >= 0)]
    function_of_step = dict(zip(step.values[runs].tolist(), label[runs].tolist(), strict=True))
    captured = named_like(plane, CAPTURED_FUNCTION.fullmatch)
    captured = captured[step.present[captured]]
    reducing = captured[_reduces(plane, order)[captured]]
    function_of_step |= dict.fromkeys(step.values[captured].tolist(), tf_data)
    function_of_step |= dict.fromkeys(step.values[reducing].tolist(), loop)
    function_of_step[_FOLDING_STEP] = constants

    turns = np.flatnonzero(names.is_executor[plane.name_of] & step.present)
    steps, inverse = np.unique(step.values[turns], return_inverse=True)
    known = np.array([function_of_step.get(i, -1) for i in steps.tolist()], np.int64)
    of_turn = np.full(len(plane), -1, np.int64)
    of_turn[turns] = known[inverse.reshape(-1)]
    by_step = pick(of_turn, executor)
    codes = np.where(by_step >= 0, by_step, label).astype(np.int32)
    definitions = {labels[k]: names.op[i] for i, k in enumerate(label_of_name.tolist()) if k >= 0}
    return Strings(codes, (*labels, TF_DATA, CONSTANTS, DATASET_LOOP)), definitions


def _labels(names: Names) -> tuple[list[str], NDArray[np.int64]]:
    """Name called functions without the counter TensorFlow adds: `f`, and `f#2` for a second one.

    The counter depends on what else the program traced before. The order of the counters does not,
    so the labels stay the same when the program is recorded again.
    """
    calls = [
        (*base_and_counter(called), called, index)
        for index, (kind, called) in enumerate(zip(names.kind, names.op, strict=True))
        if kind == Kind.FUNCTION_CALL
    ]
    labels: list[str] = []
    label_of_name = np.full(len(names.op), -1, np.int64)
    seen: Counter[str] = Counter()
    for base, _, _, index in sorted(calls):
        seen[base] += 1
        label_of_name[index] = len(labels)
        labels.append(base if seen[base] == 1 else f"{base}#{seen[base]}")
    return labels, label_of_name


def base_and_counter(called: str) -> tuple[str, int]:
    """Split a function's name into Python's name and the counter that TensorFlow adds."""
    match = _FUNCTION.fullmatch(called)
    return (match[1], int(match[2] or 0)) if match else (called, 0)


def _reduces(plane: Plane, order: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell which events lie in what reduces a dataset, and not in a stage that feeds it.

    AutoGraph turns a loop over a dataset into a scan that is reduced.
    """
    is_around = mask(_OF_REDUCE.match(name) is not None for name in plane.names)
    if not is_around.any():
        return np.zeros(len(plane), np.bool_)
    is_loop = mask(_LOOPS.fullmatch(name) is not None for name in plane.names)
    around = innermost(plane, order, is_around[plane.name_of])
    reduces: NDArray[np.bool_] = (around >= 0) & is_loop[plane.name_of[around.clip(0)]]
    return reduces


def with_recorded_functions(host: HostOps, capture_file: CaptureFile) -> HostOps:
    """Name the functions that can only be identified with a capture file."""
    return _with_session_graphs(_with_functions_of_steps(host, capture_file), capture_file)


# --- functions of datasets -------------------------------------------------------------------


def _with_functions_of_steps(host: HostOps, capture_file: CaptureFile) -> HostOps:
    """Name the functions of datasets that compute for a step rather than feed it.

    The ops of a call identify its function: their names must all be nodes of it, and of several
    such functions it is the one with the fewest other nodes.
    """
    of_steps = functions_of_steps(capture_file)
    called = _calls_by_data(host) if of_steps else {}
    if not called:
        return host
    nodes = _nodes(capture_file, functions_of_datasets(capture_file))
    function_of = {names: _best(names, nodes, of_steps) for names in set(called.values())}
    found = {
        call: function
        for call, names in called.items()
        if (function := function_of[names]) in of_steps
    }
    if not found:
        return host
    labels = _unused_labels(set(found.values()), taken=host.function.values)
    old = len(host.function.values)
    named = _with_labels(host, labels, found, keep_named=False)
    return replace(named, in_pipeline=host.in_pipeline & (named.function.codes < old))


def _with_labels(
    host: HostOps, labels: dict[str, str], function_of_call: dict[int, str], *, keep_named: bool
) -> HostOps:
    """Name the functions of some calls.

    `labels` are new ones, each with the full name of its function; `keep_named` leaves entries
    alone that have a function.
    """
    values = (*host.function.values, *labels)
    code = {name: len(host.function.values) + at for at, name in enumerate(labels.values())}
    calls = np.array(sorted(c for c, f in function_of_call.items() if f in code), np.int64)
    codes = np.array([code[function_of_call[c]] for c in calls.tolist()], np.int32)

    def named(functions: Strings, call: NDArray[np.int64]) -> Strings:
        found = pick(codes, place_of(calls, call))
        if keep_named:
            found = np.where(functions.present, -1, found)
        return Strings(np.where(found >= 0, found, functions.codes).astype(np.int32), values)

    return replace(
        host,
        function=named(host.function, host.call),
        definitions=host.definitions | labels,
        function_of_event=named(host.function_of_event, host.call_of_event),
    )


def _calls_by_data(host: HostOps) -> dict[int, frozenset[str]]:
    """Return the names of the ops that each call by tf.data ran, by its step id."""
    by_data = [k for k, f in enumerate(host.function.values) if f in {TF_DATA, DATASET_LOOP}]
    is_called = np.isin(host.function.codes, by_data) & (host.call != _NO_CALL)
    pairs = np.unique(np.stack([host.call[is_called], host.name[is_called]], axis=1), axis=0)
    found: dict[int, list[str]] = defaultdict(list)
    for call, name in pairs.tolist():
        found[call].append(host.names.op[name])
    return {call: frozenset(names) for call, names in found.items()}


def _nodes(capture_file: CaptureFile, functions: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the names of each function's nodes, as they were placed and as they ran."""
    found = {}
    for name in sorted(functions):
        function = capture_file.function(name)
        if function is not None:
            nodes = {node for i in function.instances for node in i.input.names}
            nodes |= {n for i in function.instances for p in i.partitions for n in p.names}
            found[name] = frozenset(nodes)
    return found


def _best(
    names: frozenset[str], nodes: Mapping[str, frozenset[str]], of_steps: Collection[str]
) -> str:
    """Return the function that holds some nodes and has the fewest others; "" for none.

    Of two equally good ones it is the one that feeds a step, which is the usual case.
    """
    able = [(len(own), f in of_steps, f) for f, own in nodes.items() if names <= own]
    return min(able)[2] if able else ""


def _unused_labels(functions: Iterable[str], taken: Iterable[str]) -> dict[str, str]:
    """Return functions by labels without TensorFlow's counter: `f`, and `f#2` for a second one."""
    used = set(taken)
    found = {}
    for function in sorted(functions, key=base_and_counter):
        base, _ = base_and_counter(function)
        label, number = base, 1
        while label in used:
            number += 1
            label = f"{base}#{number}"
        used.add(label)
        found[label] = function
    return found


# --- graphs of sessions ----------------------------------------------------------------------


def is_session_graph(function: str) -> bool:
    """Return whether a function of the op table is the graph of a TensorFlow 1 session."""
    return function.startswith(_SESSION_LABEL)


def _with_session_graphs(host: HostOps, capture_file: CaptureFile) -> HostOps:
    """Name the graphs of sessions as functions, where a program has several.

    Graphs of one program often have nodes of the same names.
    """
    names = {each.name for each in capture_file.session_graphs()}
    names |= {d.name or SESSION for d in capture_file.definitions if is_session(d.name or SESSION)}
    if len(names) < 2:  # noqa: PLR2004 - one graph needs no name
        return host
    graph_of_run = _graphs_of_runs(host)
    graphs = {g: SESSION if g == 0 else f"{SESSION}#{g}" for g in set(graph_of_run.values())}
    labels = {f"{_SESSION_LABEL}{g + 1}": n for g, n in sorted(graphs.items()) if n in names}
    if not labels:
        return host
    function_of_run = {run: graphs[g] for run, g in graph_of_run.items()}
    return _with_labels(host, labels, function_of_run, keep_named=True)


def _graphs_of_runs(host: HostOps) -> dict[int, int]:
    """Return the number of the graph of each run of a session, by the run's step id."""
    plane, order = host.plane, host.order
    graph, step = plane.integers("graph"), plane.integers("id")
    rank = np.empty(len(plane), np.int64)
    rank[order] = np.arange(len(order))
    markers = plane.named(_SESSION_MARKER)
    markers = markers[np.argsort(rank[markers])]
    runs = plane.named(SESSION_RUN)
    runs = runs[step.present[runs] & (step.values[runs] != _NO_CALL)]
    if not len(markers):
        return {}
    before = np.searchsorted(rank[markers], rank[runs]) - 1
    marker = markers[before.clip(0)]
    is_known = (before >= 0) & graph.present[marker]
    is_known &= plane.line_of[marker] == plane.line_of[runs]
    ids, numbers = step.values[runs[is_known]], graph.values[marker[is_known]]
    return dict(zip(ids.tolist(), numbers.tolist(), strict=True))

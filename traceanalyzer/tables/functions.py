"""Finds the function that each event of a host ran in.

A trace names the functions that Python calls. It names neither the functions that tf.data calls nor
the graphs that TensorFlow 1 sessions run. With a capture file, these are identified by the ops that
ran or by the recorder's markers.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.capture_file.document import SESSION, CaptureFile, is_session
from traceanalyzer.placement.calls import (
    functions_of_datasets,
    functions_of_steps,
    nodes_of_models,
)
from traceanalyzer.tables.arrays import (
    Flags,
    Ints,
    coded,
    innermost,
    mask,
    named_like,
    pick,
    place_of,
)
from traceanalyzer.tables.vocabulary import (
    CAPTURED_FUNCTION,
    FUNCTION_RUN,
    SESSION_RUN,
    ClassifiedNames,
    Kind,
)
from traceanalyzer.trace.columns import Plane
from traceanalyzer.trace.strings import Strings

if TYPE_CHECKING:  # host_ops imports this module
    from traceanalyzer.tables.host_ops import HostOps

TF_DATA: Final = "tf.data"  # in the column `function`: functions that a pipeline calls
DATASET_LOOP: Final = "loop over a dataset"  # ops that reduce a dataset within a step
CONSTANTS: Final = "constant folding"  # ops that run while TensorFlow prepares a graph

_FUNCTION: Final = re.compile(r"__(?:inference|forward|backward)_(?:__inference_)?(.*?)(?:_(\d+))?")
# log_memory.h, CONSTANT_FOLDING_STEP_ID: the step id of all ops that graph_runner.cc runs for
# constant_folding.cc and eval_const_tensor.cc. No function call has it.
_FOLDING_STEP: Final = -1
# reduce_dataset_op.cc: the op, and the stages of the dataset that it reduces. AutoGraph converts a
# loop over a dataset into a scan and a reduction.
_OF_REDUCE: Final = re.compile(r"ReduceIterator::|ReduceDatasetOp::DoCompute$")
_LOOPS: Final = re.compile(r"ReduceDatasetOp::DoCompute|ReduceIterator::(?:.*::)?Scan(?:\[\d+\])?")
_SESSION_MARKER: Final = "traceanalyzer:session"  # the recorder writes it before each session run
_SESSION_LABEL: Final = "session graph "
_NO_CALL: Final = 0  # see `HostOps.call`


def called_functions(
    plane: Plane, names: ClassifiedNames, kind: NDArray[np.uint8], order: Ints, executor: Ints
) -> tuple[Strings, dict[str, str]]:
    """Return the label of the function that each event ran in, and full names by label.

    On the calling thread, the enclosing call names the function. On other threads, the step id
    identifies it: the executor's event has the same id as the call's `FunctionRun`. Ops that run to
    prepare a graph have a step id of their own, even within a call.
    """
    is_call = (names.kind == Kind.FUNCTION_CALL).tolist()
    definitions = _labels({op for op, calls in zip(names.op, is_call, strict=True) if calls})
    number = {full: k for k, full in enumerate(definitions.values())}
    of_name = [number[op] if calls else -1 for op, calls in zip(names.op, is_call, strict=True)]
    call = innermost(plane, order, kind == Kind.FUNCTION_CALL)
    label = pick(np.array(of_name, np.int64), pick(plane.name_of, call))
    tf_data, constants, loop = range(len(definitions), len(definitions) + 3)

    step = plane.integers("id")
    runs = plane.named(FUNCTION_RUN)
    runs = runs[step.present[runs] & (label[runs] >= 0)]
    captured = named_like(plane, CAPTURED_FUNCTION.fullmatch)
    captured = captured[step.present[captured]]
    reducing = captured[_reduces(plane, order)[captured]]
    function_of_step = dict(zip(step.values[runs].tolist(), label[runs].tolist(), strict=True))
    function_of_step |= dict.fromkeys(step.values[captured].tolist(), tf_data)
    function_of_step |= dict.fromkeys(step.values[reducing].tolist(), loop)
    function_of_step[_FOLDING_STEP] = constants

    turns = np.flatnonzero(names.is_executor[plane.name_of] & step.present)
    steps, inverse = np.unique(step.values[turns], return_inverse=True)
    known = np.array([function_of_step.get(i, -1) for i in steps.tolist()], np.int64)
    of_turn = np.full(len(plane), -1, np.int64)
    of_turn[turns] = known[inverse.reshape(-1)]
    by_step = pick(of_turn, executor)
    codes = np.where(by_step >= 0, by_step, label)
    return coded(codes, (*definitions, TF_DATA, CONSTANTS, DATASET_LOOP)), definitions


def _labels(functions: Collection[str], taken: Collection[str] = ()) -> dict[str, str]:
    """Return full names by label. A label such as `f` or `f#2` omits TensorFlow's counter.

    The counter depends on everything that was traced before. The order of functions does not, so
    labels numbered in this order are the same in every recording of the program.
    """
    found: dict[str, str] = {}
    last: dict[str, int] = {}  # number given to each name
    for function in sorted(functions, key=lambda name: (*base_and_counter(name), name)):
        base = base_and_counter(function)[0]
        number = last.get(base, 1)
        label = base if number == 1 else f"{base}#{number}"
        while label in found or label in taken:
            number += 1
            label = f"{base}#{number}"
        found[label] = function
        last[base] = number
    return found


def base_and_counter(called: str) -> tuple[str, int]:
    """Split a function's name into its name in Python and TensorFlow's counter."""
    match = _FUNCTION.fullmatch(called)
    return (match[1], int(match[2] or 0)) if match else (called, 0)


def _reduces(plane: Plane, order: Ints) -> Flags:
    """Return a mask of the events in a dataset reduction, except those of its stages."""
    is_around = mask(map(_OF_REDUCE.match, plane.names))[plane.name_of]
    around = innermost(plane, order, is_around)
    return pick(mask(map(_LOOPS.fullmatch, plane.names))[plane.name_of], around, missing=False)


def with_recorded_functions(host: HostOps, capture_file: CaptureFile) -> HostOps:
    """Name the functions that only a capture file identifies."""
    return _with_session_graphs(_with_functions_of_datasets(host, capture_file), capture_file)


def _with_labels(
    host: HostOps, labels: dict[str, str], function_of_call: dict[int, str], *, keep_named: bool
) -> HostOps:
    """Name the functions of some calls.

    Args:
        labels: Full names of functions, keyed by their new labels.
        function_of_call: Full names of functions, keyed by step id.
        keep_named: Whether to keep the names of functions that are already known.
    """
    values = (*host.function.values, *labels)
    code = {name: len(host.function.values) + at for at, name in enumerate(labels.values())}
    known = {call: code[f] for call, f in sorted(function_of_call.items()) if f in code}
    calls, codes = np.array([*known], np.int64), np.array([*known.values()], np.int32)

    def named(functions: Strings, call: Ints) -> Strings:
        found = pick(codes, place_of(calls, call))
        replaced = (found >= 0) & ~(functions.present & keep_named)
        return coded(np.where(replaced, found, functions.codes), values)

    return replace(
        host,
        function=named(host.function, host.call),
        definitions=host.definitions | labels,
        function_of_event=named(host.function_of_event, host.call_of_event),
    )


def _with_functions_of_datasets(host: HostOps, capture_file: CaptureFile) -> HostOps:
    """Name the dataset functions that compute part of a step or of a model.

    A call is attributed to the smallest function with nodes for all of the call's ops. On a tie, a
    function that prepares input wins, because this is the usual case.
    """
    of_steps, of_models = functions_of_steps(capture_file), nodes_of_models(capture_file)
    named = of_steps | of_models.keys()
    names_of_call = _calls_by_data(host) if named else {}
    if not names_of_call:
        return host
    nodes = _nodes(capture_file, functions_of_datasets(capture_file))
    function_of = {}
    for names in set(names_of_call.values()):
        able = [(len(own), f in named, f) for f, own in nodes.items() if names <= own]
        if able and min(able)[1]:
            function_of[names] = min(able)[2]
    found = {c: function_of[names] for c, names in names_of_call.items() if names in function_of}
    if not found:
        return host
    labels = _labels(set(found.values()), taken=host.function.values)
    renamed = _with_labels(host, labels, found, keep_named=False)
    prepares = renamed.in_pipeline.copy()
    for code, label in enumerate(labels, len(host.function.values)):
        own = of_models.get(labels[label])  # of other functions, each node
        is_own = mask(own is None or op in own for op in host.names.op)[host.name]
        prepares[(renamed.function.codes == code) & is_own] = False
    return replace(renamed, in_pipeline=prepares)


def _calls_by_data(host: HostOps) -> dict[int, frozenset[str]]:
    """Return the op names of each call that tf.data made, by step id."""
    by_data = [k for k, f in enumerate(host.function.values) if f in {TF_DATA, DATASET_LOOP}]
    is_called = np.isin(host.function.codes, by_data) & (host.call != _NO_CALL)
    pairs = np.unique(np.stack([host.call[is_called], host.name[is_called]], axis=1), axis=0)
    found: dict[int, list[str]] = defaultdict(list)
    for call, name in pairs.tolist():
        found[call].append(host.names.op[name])
    return {call: frozenset(names) for call, names in found.items()}


def _nodes(capture_file: CaptureFile, functions: Collection[str]) -> dict[str, frozenset[str]]:
    found = {}
    for function in map(capture_file.function, sorted(functions)):
        if function is not None:
            graphs = [g for each in function.instances for g in (each.input, *each.partitions)]
            found[function.name] = frozenset(node for graph in graphs for node in graph.names)
    return found


def is_session_graph(function: str) -> bool:
    """Return whether a function of the op table is the graph of a TensorFlow 1 session."""
    return function.startswith(_SESSION_LABEL)


def _with_session_graphs(host: HostOps, capture_file: CaptureFile) -> HostOps:
    """Name the session graphs if there are several, since they often share node names."""
    names = {each.name for each in capture_file.session_graphs()}
    names |= {d.name or SESSION for d in capture_file.definitions if is_session(d.name or SESSION)}
    if len(names) < 2:  # noqa: PLR2004 - one graph needs no name
        return host
    plane = host.plane
    graph, step = plane.integers("graph"), plane.integers("id")
    is_marker, is_run = (
        mask(n == name for n in plane.names)[plane.name_of]
        for name in (_SESSION_MARKER, SESSION_RUN)
    )
    # The marker before each run, on the same thread, has the number of its graph.
    event = host.order[(is_marker | is_run)[host.order]]
    before = np.maximum.accumulate(np.where(is_marker[event], np.arange(len(event)), 0))
    marker = event[before]
    known = is_marker[marker] & (plane.line_of[marker] == plane.line_of[event])
    known &= graph.present[marker] & step.present[event]
    known &= is_run[event] & (step.values[event] != _NO_CALL)
    runs, numbers = step.values[event[known]].tolist(), graph.values[marker[known]].tolist()
    graphs = {g: SESSION if g == 0 else f"{SESSION}#{g}" for g in sorted(set(numbers))}
    labels = {f"{_SESSION_LABEL}{g + 1}": n for g, n in graphs.items() if n in names}
    graph_of_run = {run: graphs[g] for run, g in zip(runs, numbers, strict=True)}
    return _with_labels(host, labels, graph_of_run, keep_named=True) if labels else host

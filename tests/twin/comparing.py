"""Compares the prediction of a capture without a GPU with TensorFlow's placement with one.

Ops of graphs are matched by function and node, or else by type and line; eager ops by type, line,
input types, and requested device, or else by type and line. Ops that only one of the programs has
are counted separately.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pandas as pd

import traceanalyzer as ta
from tests.twin.capturing import Captured
from traceanalyzer.capture_file.document import SESSION, CaptureFile, Frame
from traceanalyzer.diagnosis import Prediction, cpu_ops
from traceanalyzer.run import Run
from traceanalyzer.tables.graph_nodes import as_typed

__all__ = ["Twin", "compare"]

_Key: TypeAlias = tuple[object, ...]
_NUMBER: Final = re.compile(r"_\d+$")
_HOST_MEMORY: Final = "host_memory_kernel"  # placed on the GPU


@dataclass(frozen=True, kw_only=True)
class Twin:
    """How a prediction agrees with what TensorFlow does. Ops are named in words, one each.

    Attributes:
        status: `compared`, or why that was possible in part or not at all.
        right: Ops predicted on the CPU that are there.
        wrong: Ops predicted on the CPU that are not.
        certain: Those of `wrong` whose finding is certain.
        missed: Ops on the CPU, traced in both captures, that were not predicted.
        untraced: Ops on the CPU that left no event in the capture without a GPU.
        apart: Ops that only one of the two programs has.
        predictions: The number of findings behind the prediction.
    """

    status: str
    right: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    certain: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()
    untraced: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    predictions: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether both programs came to the same end."""
        return self.status == "compared"


@dataclass(frozen=True, slots=True)
class _Op:
    """One op of either capture, by all the keys that may find it in the other."""

    words: str
    keys: tuple[_Key, ...]


def compare(without: Captured, emulated: Captured) -> Twin:
    """Compare two captures of one program.

    Args:
        without: The one without a GPU.
        emulated: The one with emulated GPUs; of one that crashed the capture file suffices.
    """
    if without.run is None or without.capture_file is None:
        return Twin(status=f"nothing predicted: exit code {without.exit_code} without a GPU")
    if emulated.capture_file is None:
        return Twin(status=f"no capture file with a GPU: exit code {emulated.exit_code}")
    found = ta.diagnose(without.run).on_a_gpu
    if found is None:
        return Twin(status="nothing predicted: the capture saw a GPU")
    status = "compared"
    if without.exit_code != emulated.exit_code:
        codes = f"{without.exit_code} without a GPU, {emulated.exit_code} with one"
        status = f"compared in part: exit code {codes}"
    parts: dict[str, list[str]] = defaultdict(list)
    rows = {str(row.op_id): op for row, op in _rows(without.run)}
    predicted = _check_predicted(found, rows, _devices(emulated.capture_file), parts)
    _check_found(emulated, predicted, rows.values(), _devices(without.capture_file), parts)
    named = {name: tuple(words) for name, words in parts.items()}
    return Twin(status=status, predictions=len(found.findings), **named)


def _check_predicted(
    found: Prediction,
    rows: Mapping[str, _Op],
    devices: Mapping[_Key, set[str]],
    parts: dict[str, list[str]],
) -> set[_Key]:
    """Sort what was predicted on the CPU into right, wrong and apart; return its keys."""
    findings = {op_id: f for f in found.findings for op_id in (*f.op_ids, *f.dragged_along)}
    predicted: set[_Key] = set()
    for op_id in found.analysis.cpu_ops:
        op, finding = rows[op_id], findings.get(op_id)
        if finding is not None and finding.cause == _HOST_MEMORY:
            continue
        predicted.update(op.keys)
        kinds = next((devices[key] for key in op.keys if key in devices), set())
        words = f"{op.words}: " + (f"{finding.cause}, {finding.certainty}" if finding else "?")
        if not kinds:
            parts["apart"].append(words)
        elif "CPU" in kinds:
            parts["right"].append(words)
        else:
            parts["wrong"].append(words)
            if finding is not None and finding.certainty == "certain":
                parts["certain"].append(words)
    return predicted


def _check_found(
    emulated: Captured,
    predicted: set[_Key],
    traced: Iterable[_Op],
    known: Mapping[_Key, set[str]],
    parts: dict[str, list[str]],
) -> None:
    """Sort what was on the CPU with a GPU, and not predicted, into missed, untraced and apart."""
    there = {key for op in traced for key in op.keys}
    for op in () if emulated.run is None else _on_cpu(emulated.run):
        first = op.keys[0]
        key = next((key for key in op.keys if key in there), first)
        if key in predicted:
            continue
        kind = "missed" if key in there else "untraced" if first in known else "apart"
        parts[kind].append(op.words)


def _on_cpu(run: Run) -> Iterator[_Op]:
    counted = set(cpu_ops(run)["op_id"])
    return (op for row, op in _rows(run) if row.op_id in counted)


def _rows(run: Run) -> Iterator[tuple[Any, _Op]]:
    for host in run.hosts:
        joined = host.tables.joined
        records = (None,) * len(host.tables.ops) if joined is None else joined.records
        for row, record in zip(host.tables.ops.itertuples(index=False), records, strict=True):
            line = ()
            if not pd.isna(row.source_line):
                line = (str(row.source_file), int(row.source_line))
            where = f"{line[0].rpartition('/')[2]}:{line[1]}" if line else "no line"
            words = f"{row.type} {row.name} in {row.function or 'eager'} at {where}"
            keys = []
            if row.is_eager:
                types = row.input_types if isinstance(row.input_types, str) else None
                asked = row.requested_device if isinstance(row.requested_device, str) else ""
                keys.append(("eager", row.type, line, types, asked))
            elif record is not None:
                keys.append(("node", _function(record.function), record.node))
            if line:
                keys.append(("line", row.type, line))
            yield row, _Op(words, tuple(keys) or (("none", row.op_id),))


def _devices(capture_file: CaptureFile) -> dict[_Key, set[str]]:
    """Return the types of devices that ops were placed on, by each of their keys."""
    found: dict[_Key, set[str]] = defaultdict(set)

    def add(keys: Iterable[_Key], device: str) -> None:
        kind = device.rpartition("/device:")[2].partition(":")[0]
        for key in keys if kind else ():
            found[key].add(kind)

    for signature in capture_file.signatures:
        if signature.is_function:
            continue
        line = _line(capture_file.frame(signature.frame))
        types = ";".join(tensor.dtype for tensor in signature.inputs)
        tensors = signature.outputs or [t for t in signature.inputs if t.dtype == "resource"]
        for tensor in tensors:
            asked = as_typed(signature.scope)
            keys: list[_Key] = [("eager", signature.op, line, types, asked)]
            add([*keys, ("line", signature.op, line)] if line else keys, tensor.device)
    for function in capture_file.functions:
        for instance in function.instances:
            graph = instance.input
            for at, (name, device) in enumerate(zip(graph.names, instance.assigned, strict=True)):
                origin = graph.origin_functions[at] or function.name
                line = _line(capture_file.frame_of_node(origin, graph.origin_nodes[at] or name))
                keys = [("node", _function(function.name), name)]
                add([*keys, ("line", graph.ops[at], line)] if line else keys, device)
    return found


def _line(frame: Frame | None) -> tuple[str, int] | tuple[()]:
    return () if frame is None else (frame.file, frame.line)


def _function(name: str) -> str:
    """Return a function's name without the number that the two programs may count differently."""
    return _NUMBER.sub("", name or SESSION)

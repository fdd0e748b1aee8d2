"""Captures labelled programs, proves their labels, and scores the causes that reports name."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import pandas as pd

import traceanalyzer as ta
from tests.emulator.captures import Captured
from tests.emulator.captures import captured as captured_program
from tests.labelled import Label, LabelledProgram
from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.diagnosis import Diagnosis, cpu_ops
from traceanalyzer.findings import Finding
from traceanalyzer.placement.on_a_gpu import OPTION
from traceanalyzer.run import Run
from traceanalyzer.tables.vocabulary import Role, role_of_type

_SESSION: Final = "unknown_graph"  # the name of a session's graph in TensorFlow's dumps


@functools.cache
def captured(program: LabelledProgram, *fixes: str, level: int = 2, gpus: int | None = None) -> Run:
    """Capture a program without the causes of these names, and load the run."""
    return recorded(program, *fixes, level=level, gpus=gpus).run()


def recorded(
    program: LabelledProgram,
    *fixes: str,
    level: int = 2,
    gpus: int | None = None,
    how: str = "captured_in_fork:capture",
) -> Captured:
    """Capture a program; return the log directory, and what TensorFlow placed and ran."""
    return captured_program(
        program.path,
        *fixes,
        gpus=program.emulated_gpus if gpus is None else gpus,
        level=level,
        environment=program.environment,
        how=how,
    )


@functools.cache
def diagnosed(program: LabelledProgram, *, has_trace: bool = True) -> Diagnosis:
    """Return the diagnosis of a program's capture on the emulated GPUs."""
    run = captured(program) if has_trace else _without_trace(program)
    return ta.diagnose(run)


def on_cpu(program: LabelledProgram, run: Run) -> pd.DataFrame:
    """Return the rows of ops on the CPU that count.

    The input pipeline needs no explanation; of its ops, those with a label count.
    """
    ops = run.ops
    is_labelled = pd.Series(
        [label_of(program, row) is not None for row in ops.itertuples()], ops.index, bool
    )
    in_pipeline = (ops["placement"] == "cpu") & (ops["role"] == Role.INPUT_PIPELINE) & is_labelled
    return ops[in_pipeline | ops["op_id"].isin(list(cpu_ops(run)["op_id"]))]


def label_of(program: LabelledProgram, row: Any) -> Label | None:  # noqa: ANN401 - a named tuple
    """Return the label of an op.

    On a CPU with AVX-512, TensorFlow replaces many ops by oneDNN's: `MatMul` by `_MklMatMul`,
    `_FusedMatMul` by `_MklNativeFusedMatMul`.
    """
    if pd.isna(row.source_line):
        return None
    here = {label.op_type: label for label in program.labels if label.line == row.source_line}
    replaced = row.type.replace("_MklNative", "_")
    wanted = (row.type, replaced, row.type.removeprefix("_Mkl"), "*")
    return next((here[op_type] for op_type in wanted if op_type in here), None)


# ------------------------------------------------------------------------------ proofs


def problems(program: LabelledProgram) -> list[str]:
    """Return the labels of a program that the devices of its ops contradict."""
    found = []
    seen: dict[Label, set[str]] = defaultdict(set)
    for row in on_cpu(program, captured(program)).itertuples():
        label = label_of(program, row)
        if label is None:
            found.append(f"no label: {_place(row)} ({row.name})")
        else:
            seen[label].add(str(row.type))
    for label in program.labels:
        where = f"line {label.line}"
        if label not in seen:
            found += [f"{where}: no {label.op_type} on the CPU"] * (label.line not in _fused(seen))
        elif fixes := label.fixes:
            without_all = captured(program, *fixes)
            if _on_cpu_at(without_all, label) & seen[label]:
                found.append(f"{where}: {label.op_type} is on the CPU without {', '.join(fixes)}")
            if not any(
                device and "CPU" not in device
                for host in without_all.hosts
                if host.capture_file is not None
                for device in _devices_at(host.capture_file, label.line)
            ):
                found.append(f"{where}: nothing runs elsewhere without {fixes}")
            for left in fixes if len(label.causes) > 1 else ():
                others = [fix for fix in fixes if fix != left]
                if not _on_cpu_at(captured(program, *others), label) & seen[label]:
                    found.append(f"{where}: {label.op_type} moves with {left} left in")
    return found


def _fused(seen: Mapping[Label, set[str]]) -> set[int]:
    """Return the lines with oneDNN's fused ops, which also compute the ops after them.

    TensorFlow uses these ops on a CPU with AVX-512.
    """
    return {at.line for at, types in seen.items() if any("_MklNativeFused" in t for t in types)}


def _on_cpu_at(run: Run, label: Label) -> set[str]:
    ops = run.ops
    return set(ops["type"][(ops["source_line"] == label.line) & (ops["placement"] == "cpu")])


def _devices_at(capture_file: CaptureFile, line: int) -> Iterator[str]:
    """Return the devices that TensorFlow placed ops of a line on.

    Ops on an emulated GPU leave no event, so these are the placer's answers.
    """
    for signature in capture_file.signatures:
        frame = capture_file.frame(signature.frame)
        if frame is not None and frame.line == line and not signature.is_function:
            yield from (output.device for output in signature.outputs)
    for function in capture_file.functions:
        for instance in function.instances:
            graph = instance.input
            own = "" if function.name == _SESSION else function.name
            for at, name in enumerate(graph.names):
                origin = graph.origin_functions[at] or own
                frame = capture_file.frame_of_node(origin, graph.origin_nodes[at] or name)
                if frame is not None and frame.line == line:
                    yield instance.assigned[at]


# ------------------------------------------------------------------------------ scores


@dataclass(kw_only=True)
class Score:
    """How well the named causes agree with the labels; scores can be added."""

    ops: int = 0  #: ops on the CPU
    right: int = 0  #: exactly the label's causes are named
    wrong_certain: int = 0  #: a cause is certain that the label does not have
    misses: list[str] = field(default_factory=list)

    def __add__(self, other: Score) -> Score:
        """Return the score of both."""
        return Score(
            ops=self.ops + other.ops,
            right=self.right + other.right,
            wrong_certain=self.wrong_certain + other.wrong_certain,
            misses=self.misses + other.misses,
        )


@functools.cache
def score(program: LabelledProgram, *, has_trace: bool = True) -> Score:
    """Score the answers to a capture.

    If the program hid the GPU, the blockers on a machine with a GPU count, too.
    """
    diagnosis = diagnosed(program, has_trace=has_trace)
    findings = _by_op(diagnosis.findings)
    predicted = () if diagnosis.on_a_gpu is None else diagnosis.on_a_gpu.findings
    on_a_gpu = _by_op(f for f in predicted if f.cause != "host_memory_kernel")  # not on the CPU
    found = Score()
    for row in on_cpu(program, diagnosis.run).itertuples():
        label = label_of(program, row)
        finding = findings.get(str(row.op_id))
        named = _causes(finding) | _causes(on_a_gpu.get(str(row.op_id)))
        is_right = label is not None and named == label.ids
        certainty = "unexplained" if finding is None else str(finding.certainty)
        found.ops += 1
        found.right += is_right
        found.wrong_certain += certainty == "certain" and not is_right
        if not is_right:
            wanted = sorted(label.ids) if label is not None else "none"
            where = f"{program.name}:{_place(row)} ({row.name})"
            found.misses.append(f"{where}: {sorted(named)}, {certainty}; label: {wanted}")
    return found


@functools.cache
def score_listed(program: LabelledProgram, *, has_trace: bool = True) -> Score:
    """Score which ops are listed, of those that TensorFlow placed on the CPU and made kernels for.

    An op without an event that TensorFlow did not put there counts as a miss, too.
    """
    outcome = recorded(program).outcome
    made = {(kernel.op, kernel.node) for kernel in outcome.kernels if "CPU" in kernel.device}
    placed: set[tuple[str, str]] = set()
    for run in outcome.runs:
        if not run.function.startswith("__inference_Dataset_"):  # the input pipeline
            nodes = zip(run.graph.ops, run.graph.names, run.assigned, strict=False)
            placed |= {
                (op, op if run.is_eager_op else name) for op, name, at in nodes if "CPU" in at
            }
    # An eager op is named after its type, which is oneDNN's on a CPU with AVX-512 (`label_of`).
    there = {
        (op.removeprefix("_Mkl"), op.removeprefix("_Mkl")) if op == node else (op, node)
        for op, node in made & placed
        if role_of_type(op) == Role.COMPUTE
    }
    ops = diagnosed(program, has_trace=has_trace).run.ops
    listed = set(zip(ops["type"], ops["name"], strict=True))
    listed |= {(op.removeprefix("_Mkl"), node.removeprefix("_Mkl")) for op, node in listed}
    silent = ops[ops["no_event"].notna() & ~ops["is_eager"]]
    wrong = set(zip(silent["type"], silent["name"], strict=True)) - made
    misses = [f"{program.name}: {op} {node}" for op, node in sorted((there - listed) | wrong)]
    return Score(ops=len(there), right=len(there) - len(misses), misses=misses)


_ByKind: TypeAlias = dict[tuple[int, str], bool]  # by line and type: whether any is on the CPU


@functools.cache
def _with_and_without_gpu(program: LabelledProgram) -> tuple[_ByKind, _ByKind, _ByKind]:
    """Return where the kinds of ops are on a GPU machine, are predicted, and which are unsure."""
    # If the program hides the GPUs, its ops with a GPU are those it has without hiding them. And a
    # prediction assumes one GPU with enough memory.
    assumed = {"no_gpu_visible", *(["memory_pressure"] * program.is_short_of_gpu_memory)}
    without = {
        fix for label in program.labels for cause, fix in label.causes if cause in assumed and fix
    }
    one = {"gpus": 1} if program.emulated_gpus > 1 else {}
    emulated = captured(program, *sorted(without), **one)
    truth = _on_cpu_by_kind(emulated, emulated.ops["op_id"][emulated.ops["placement"] == "cpu"])
    run = captured(program, gpus=0)
    prediction = ta.diagnose(run).on_a_gpu
    assert prediction is not None
    predicted = _on_cpu_by_kind(run, prediction.analysis.cpu_ops)
    # Which ops this optimizer would move is not predicted: those that it may are said to be unsure.
    moved = [op_id for op_id, why in prediction.analysis.unsure.items() if OPTION in why]
    return truth, predicted, _on_cpu_by_kind(run, moved)


@functools.cache
def score_on_a_gpu(program: LabelledProgram) -> Score:
    """Score which kinds of ops, by line and type, a capture without a GPU predicts on the CPU."""
    truth, predicted, is_unsure = _with_and_without_gpu(program)
    common = sorted(kind for kind in truth.keys() & predicted.keys() if not is_unsure[kind])
    misses = [
        f"{program.name}:{kind[0]}: {kind[1]}: CPU {predicted[kind]}, TensorFlow: {truth[kind]}"
        for kind in common
        if predicted[kind] != truth[kind]
    ]
    return Score(ops=len(common), right=len(common) - len(misses), misses=misses)


@functools.cache
def score_found_on_a_gpu(program: LabelledProgram) -> Score:
    """Score which of the kinds of ops on the CPU of a GPU machine the prediction has there."""
    truth, predicted, is_unsure = _with_and_without_gpu(program)
    kinds = sorted(kind for kind, on_cpu in truth.items() if on_cpu and not is_unsure[kind])
    misses = [f"{program.name}:{kind[0]}: {kind[1]}" for kind in kinds if not predicted.get(kind)]
    return Score(ops=len(kinds), right=len(kinds) - len(misses), misses=misses)


def _on_cpu_by_kind(run: Run, on_cpu: Iterable[str]) -> _ByKind:
    """Return whether any op of a line and type is among those on the CPU."""
    there = set(on_cpu)
    found: _ByKind = defaultdict(bool)
    ops = run.ops
    for row in ops[(ops["role"] == Role.COMPUTE) & ops["source_line"].notna()].itertuples():
        found[int(row.source_line), str(row.type)] |= row.op_id in there
    return found


def clean_alarms(program: LabelledProgram) -> list[str]:
    """Return the harmful findings of a program."""
    return [finding.title for finding in diagnosed(program).findings if finding.harm == "harmful"]


def _without_trace(program: LabelledProgram) -> Run:
    folder = Path(tempfile.mkdtemp(prefix="labelled-")) / "logs"
    shutil.copytree(recorded(program).logdir, folder, ignore=shutil.ignore_patterns("*.xplane.pb"))
    return ta.load(folder)


def _causes(finding: Finding | None) -> frozenset[str]:
    if finding is None:
        return frozenset()
    return frozenset({finding.cause, *(blocker.cause for blocker in finding.blockers)})


def _by_op(findings: Iterable[Finding]) -> Mapping[str, Finding]:
    return {op_id: finding for finding in findings for op_id in finding.op_ids}


def _place(row: Any) -> str:  # noqa: ANN401 - a named tuple
    return f"{row.source_line}: {row.type}"

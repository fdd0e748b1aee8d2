"""Captures labelled programs, proves their labels, and scores what the rules say of them."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections import defaultdict
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pandas as pd

import traceanalyzer as ta
from tests.emulator.oracle import the_oracle
from traceanalyzer.diagnosis import cpu_ops
from traceanalyzer.evidence.candidates import Candidates
from traceanalyzer.tables.vocabulary import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tests.labelled import Label, LabelledProgram
    from traceanalyzer.capture_file.document import CaptureFile
    from traceanalyzer.diagnosis import Diagnosis, OnAGpu
    from traceanalyzer.findings import Finding
    from traceanalyzer.run import Run

__all__ = [
    "BareScore",
    "Score",
    "captured",
    "label_of",
    "on_cpu",
    "problems",
    "score",
    "score_bare",
]

_CAPTURE: Final = "tests.labelled.captured_in_fork:capture"
_MOST_NAMED: Final = 4
_OF_A_SESSION: Final = "unknown_graph"  # what TensorFlow's dumps call a session's graph


@functools.cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="labelled-"))


@functools.cache
def captured(program: LabelledProgram, *fixes: str, level: int = 2, gpus: int | None = None) -> Run:
    """Capture a program without the causes of these names, and read it back.

    Raises:
        AssertionError: It failed.
    """
    logdir = Path(tempfile.mkdtemp(dir=_folder()))
    outcome = the_oracle().run(
        _CAPTURE,
        str(program.path),
        str(logdir),
        level,
        *fixes,
        gpus=program.emulated_gpus if gpus is None else gpus,
        environment=program.environment,
    )
    assert outcome.exit_code == 0, f"{program.name} {fixes}: {outcome.error or outcome.stderr}"
    return ta.load(logdir)


@functools.cache
def diagnosed(program: LabelledProgram) -> Diagnosis:
    """Return what the rules say of a program, by its capture on the emulated GPUs."""
    return ta.diagnose(captured(program))


def on_cpu(program: LabelledProgram, run: Run) -> pd.DataFrame:
    """Return the rows of ops on the CPU that count.

    Of the input pipeline, which needs no explanation, what a label names counts: what its functions
    compute for the model.
    """
    ops = run.ops
    is_named = pd.Series(
        [_label_of_row(program, row) is not None for row in ops.itertuples()], ops.index, bool
    )
    in_pipeline = (ops["placement"] == "cpu") & (ops["role"] == Role.INPUT_PIPELINE) & is_named
    return ops[in_pipeline | ops["op_id"].isin(list(cpu_ops(run)["op_id"]))]


def label_of(program: LabelledProgram, op_type: str, line: int) -> Label | None:
    """Return the label of ops of a type at a line, or None.

    On a CPU with AVX-512, TensorFlow makes oneDNN's ops of many: `_MklMatMul` of `MatMul`.
    """
    here = [label for label in program.labels if label.line == line]
    for wanted in (op_type, op_type.removeprefix("_Mkl"), "*"):
        for label in here:
            if label.op_type == wanted:
                return label
    return None


def problems(program: LabelledProgram) -> list[str]:
    """Return what of a program's labels TensorFlow does not bear out; nothing of ours is asked.

    Nothing but that an op is at a line, and on which device: that comes from what TensorFlow ran.
    """
    found = []
    run = captured(program)
    seen: dict[Label, set[str]] = defaultdict(set)
    for row in on_cpu(program, run).itertuples():
        label = _label_of_row(program, row)
        if label is None:
            found.append(f"no label: {_place(row)} ({row.name})")
        else:
            seen[label].add(str(row.type))
    for label in program.labels:
        if label not in seen:
            found.append(f"line {label.line}: no {label.op_type} on the CPU")
            continue
        removable = sorted({cause.fix for cause in label.causes if cause.fix})
        if not removable:
            continue
        rest = _types_at(captured(program, *removable), label, seen[label])
        if rest["cpu"]:
            found.append(
                f"line {label.line}: {label.op_type} is on the CPU without {', '.join(removable)}"
            )
        if not rest["elsewhere"]:
            found.append(f"line {label.line}: nothing runs elsewhere without {removable}")
        for left in removable if len(label.causes) > 1 else ():
            others = [fix for fix in removable if fix != left]
            if not _types_at(captured(program, *others), label, seen[label])["cpu"]:
                found.append(f"line {label.line}: {label.op_type} moves with {left} left in")
    return found


def _types_at(run: Run, label: Label, types: set[str]) -> dict[str, set[str]]:
    """Return which types are at a label's line: those of it on the CPU; any that are not there."""
    ops = run.ops[(run.ops["source_line"] == label.line) & (run.ops["placement"] == "cpu")]
    return {
        "cpu": set(ops["type"]) & types,
        "elsewhere": {
            op_type
            for host in run.hosts
            if host.capture_file is not None
            for op_type, device in _placed_at(host.capture_file, label.line)
            if device and "CPU" not in device
        },
    }


def _placed_at(capture_file: CaptureFile, line: int) -> Iterator[tuple[str, str]]:
    """Return the type and the device of what TensorFlow placed of a line.

    Of what runs on an emulated GPU a trace shows nothing, so this is what the placer answered.
    """
    for signature in capture_file.signatures:
        frame = capture_file.frame(signature.frame)
        if frame is not None and frame.line == line and not signature.is_function:
            for output in signature.outputs:
                yield signature.op, output.device
    for function in capture_file.functions:
        for instance in function.instances:
            graph = instance.input
            own = "" if function.name == _OF_A_SESSION else function.name
            for at, name in enumerate(graph.names):
                origin = graph.origin_functions[at] or own
                frame = capture_file.frame_of_node(origin, graph.origin_nodes[at] or name)
                if frame is not None and frame.line == line:
                    yield graph.ops[at], instance.assigned[at]


@dataclass(frozen=True, kw_only=True)
class Score:
    """How what the rules say agrees with the labels.

    Attributes:
        ops: Ops on the CPU.
        right: Of these, those of which exactly the causes of the label are named.
        certain: Those that are explained with certainty.
        wrong_certain: Of these, those whose causes are not the label's.
        misses: What is wrong, in words.
    """

    ops: int
    right: int
    certain: int
    wrong_certain: int
    misses: tuple[str, ...]


@functools.cache
def score(program: LabelledProgram) -> Score:
    """Score what is said of a capture with its capture file.

    Where the program hid the GPU, what is said to keep ops on the CPU with one is said, too.
    """
    found = diagnosed(program)
    rows = on_cpu(program, found.run)
    replayed = () if found.on_a_gpu is None else found.on_a_gpu.findings
    with_a_gpu = [f for f in replayed if f.cause != "host_memory_kernel"]  # not on the CPU
    return _scored(program, rows, _by_op(found.findings), _by_op(with_a_gpu))


@functools.cache
def score_on_a_gpu(program: LabelledProgram) -> tuple[int, int, tuple[str, ...]]:
    """Score what a capture without a GPU says would be on the CPU with one.

    Returns:
        Kinds of ops, by line and type, that run in both; of these, those of which it is right
        whether they are on the CPU; and the others, in words.
    """
    causes = (cause for label in program.labels for cause in label.causes)
    # Where the program itself hides the GPUs, what it does with one is what it does without that.
    # Nor does it run out of a GPU's memory: that the program fits is assumed, and said.
    assumed = {"no_gpu_visible", *(["memory_pressure"] * program.is_short_of_gpu_memory)}
    without = sorted({cause.fix for cause in causes if cause.id in assumed and cause.fix})
    one = {"gpus": 1} if program.emulated_gpus > 1 else {}  # as the prediction assumes
    truth = _on_cpu_by_kind(captured(program, *without, **one), None)
    run = captured(program, gpus=0)
    told = _on_cpu_by_kind(run, ta.diagnose(run).on_a_gpu)
    common = truth.keys() & told.keys()
    wrong = tuple(
        f"{program.name}:{line}: {op_type}: CPU {told[line, op_type]}, TensorFlow: "
        f"{truth[line, op_type]}"
        for line, op_type in sorted(common)
        if told[line, op_type] != truth[line, op_type]
    )
    return len(common), len(common) - len(wrong), wrong


def _on_cpu_by_kind(run: Run, assumed: OnAGpu | None) -> dict[tuple[int, str], bool]:
    """Return whether any op of a line and type is on the CPU; in a run, or where one is assumed."""
    ops = run.ops[(run.ops["role"] == "compute") & run.ops["source_line"].notna()]
    found: dict[tuple[int, str], bool] = {}
    for row in ops.itertuples():
        is_there = row.placement == "cpu" if assumed is None else row.op_id in assumed.cpu_ops
        kind = (int(row.source_line), str(row.type))
        found[kind] = found.get(kind, False) or is_there
    return found


@dataclass(frozen=True, kw_only=True)
class BareScore:
    """How what is said of a trace alone agrees with the labels.

    Attributes:
        ops: Ops on the CPU that the trace shows and a label is of.
        among: Of these, those of which a true cause is among at most four named.
        named: Causes named, of all of them together.
        wrong_certain: Those of which something is told for certain that no label says.
        misses: What is wrong, in words.
    """

    ops: int
    among: int
    named: int
    wrong_certain: int
    misses: tuple[str, ...]


@functools.cache
def score_bare(program: LabelledProgram, level: int) -> BareScore:
    """Score what is said of the trace alone, of a host tracer level."""
    full = captured(program, level=level)
    expected: dict[tuple[bool, str, str], set[str]] = defaultdict(set)
    for row in on_cpu(program, full).itertuples():
        label = _label_of_row(program, row)
        if label is not None:
            expected[_kind(row)] |= label.ids
    found = ta.diagnose(_without_capture_file(full))
    by_op = _by_op(found.findings)
    candidates = Candidates(found.run)
    ops = among = named = wrong = 0
    misses = []
    ops_told = found.run.ops
    counted = {Role.COMPUTE, Role.INPUT_PIPELINE}
    is_counted = (ops_told["placement"] == "cpu") & ops_told["role"].isin(counted)
    for row in ops_told[is_counted].itertuples():
        true = expected.get(_kind(row))
        if true is None:
            continue  # an op that a label cannot be tied to
        finding = by_op.get(str(row.op_id))
        cpu_op = found.cpu_ops.get(str(row.op_id))
        told = frozenset(candidates.of(cpu_op)) if finding is None else _causes(finding)
        ops += 1
        named += len(told)
        is_among = len(told) <= _MOST_NAMED and bool(told & true)
        among += is_among
        is_wrong = finding is not None and finding.certainty == "certain" and not told <= true
        wrong += is_wrong
        if is_wrong or not is_among:
            how = finding.certainty if finding is not None else "candidates"
            misses.append(
                f"{program.name}: {row.name} ({row.type}): {sorted(told)}, {how}; label: "
                f"{sorted(true)}"
            )
    return BareScore(ops=ops, among=among, named=named, wrong_certain=wrong, misses=tuple(misses))


def _without_capture_file(run: Run) -> Run:
    folder = Path(tempfile.mkdtemp(dir=_folder())) / "plugins" / "profile" / "run"
    folder.mkdir(parents=True)
    for host in run.hosts:
        assert host.file is not None
        shutil.copy(host.file.path, folder)
    return ta.load(folder.parents[2])


def _scored(
    program: LabelledProgram,
    rows: pd.DataFrame,
    findings: Mapping[str, Finding],
    with_a_gpu: Mapping[str, Finding],
) -> Score:
    right = certain = wrong_certain = 0
    misses = []
    for row in rows.itertuples():
        label = _label_of_row(program, row)
        finding = findings.get(str(row.op_id))
        told = frozenset() if finding is None else _causes(finding)
        if (also := with_a_gpu.get(str(row.op_id))) is not None:
            told |= _causes(also)
        is_right = label is not None and told == label.ids
        is_certain = finding is not None and finding.certainty == "certain"
        right += is_right
        certain += is_certain
        wrong_certain += is_certain and not is_right
        if not is_right:
            how = finding.certainty if finding is not None else "unexplained"
            wanted = sorted(label.ids) if label is not None else "none"
            misses.append(
                f"{program.name}:{_place(row)} ({row.name}): {sorted(told)}, {how}; label: {wanted}"
            )
    return Score(
        ops=len(rows),
        right=right,
        certain=certain,
        wrong_certain=wrong_certain,
        misses=tuple(misses),
    )


def _causes(finding: Finding) -> frozenset[str]:
    return frozenset({finding.cause, *(blocker.cause for blocker in finding.blockers)})


def _by_op(findings: Iterable[Finding]) -> dict[str, Finding]:
    return {op_id: finding for finding in findings for op_id in finding.op_ids}


def _label_of_row(program: LabelledProgram, row: object) -> Label | None:
    line = getattr(row, "source_line", None)
    if pd.isna(line):
        return None
    return label_of(program, str(row.type), int(line))  # type: ignore[attr-defined]


def _kind(row: object) -> tuple[bool, str, str]:
    is_eager = bool(row.is_eager)  # type: ignore[attr-defined]
    name, op_type = str(row.name), str(row.type)  # type: ignore[attr-defined]
    return is_eager, op_type if is_eager else name, op_type


def _place(row: object) -> str:
    return f"{getattr(row, 'source_line', None)}: {row.type}"  # type: ignore[attr-defined]


def total(scores: Iterable[Score | BareScore]) -> dict[str, int]:
    """Return the sums of all figures."""
    found: dict[str, int] = defaultdict(int)
    for each in scores:
        for f in fields(each):
            value = getattr(each, f.name)
            if isinstance(value, int):
                found[f.name] += value
    return dict(found)


def clean_alarms(program: LabelledProgram) -> Iterator[str]:
    """Return the findings of a program that call something harmful."""
    for finding in diagnosed(program).findings:
        if finding.harm == "harmful":
            yield f"{program.name}: {finding.title}"

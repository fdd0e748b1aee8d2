"""TensorFlow used no GPU at all.

## What it detects

Runs in which nothing shows that TensorFlow had a GPU: no event on one, no allocation on one, no
transfer that names one. With a capture: programs that recorded that TensorFlow had none, and what
kept it from seeing one.

Of a trace alone the finding also says how many of the ops are of types that have GPU kernels, and
so would likely have been placed on one; of a capture the report says that op by op.

## Why it happens

A build without CUDA, a driver or libraries that could not be loaded, a GPU hidden by the
environment (`CUDA_VISIBLE_DEVICES`), by `tf.config.set_visible_devices` or, in TensorFlow 1, by a
session's `device_count`, a GPU that TensorFlow takes for too old or too small, or a machine without
one. With soft placement, the default in
TensorFlow 2, every op then runs on the CPU without a word, even under `tf.device("/GPU:0")`.

## How to fix it

Undo what hides it, or install what is missing: the finding names it where a capture recorded it.
A program that hides the GPU from itself by a constant does so on every machine: remove the line
that the finding names. Where the line computes what it sets, stands under a condition or gives a
default, the program may do otherwise on a machine with a GPU.
Otherwise ask TensorFlow what it sees: `tf.config.list_physical_devices("GPU")`. What it prints to
stderr when it is imported says why a GPU was not taken.

## How sure it is

Certain with a capture: the program's own list of devices has no GPU, or all that it ran were
sessions that were told to have none. From a trace alone likely: a
GPU may have been used while its tracer was switched off or failed. Where the profiler itself
reports that, or was told not to trace devices, only possible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from traceanalyzer.causes._cause import Cause
from traceanalyzer.evidence.after_errors import raised_evidence
from traceanalyzer.evidence.failure import Failure, failure
from traceanalyzer.evidence.places import line_evidence, line_text
from traceanalyzer.evidence.visibility import (
    Obstacle,
    obstacles,
    of_the_program,
    ran_in_sessions_alone,
    saw_no_gpu,
)
from traceanalyzer.findings import Finding
from traceanalyzer.format import counted
from traceanalyzer.model import CaptureFileWhere, Evidence, Fix, TraceWhere
from traceanalyzer.placement.by_registry import coverage_text
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS, Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd

    from traceanalyzer.capture_file.document import CaptureFile
    from traceanalyzer.model import Certainty
    from traceanalyzer.run import Run


def _not_applicable(run: Run) -> str | None:
    if run.gpu_used:
        return "TensorFlow used a GPU"
    facts = [h.tables.facts for h in run.hosts]
    if any(f.pluggable_used for f in facts):
        return "a pluggable device was used"
    if any("/device:TPU" in name for f in facts for name in f.accelerators):
        return "the run used TPUs"
    if run.ops.empty and not any(_required(run)):
        return "no op was recorded"
    return None


def _check(run: Run) -> Iterator[Finding]:
    ops = run.ops
    found = ops[
        (ops["placement"] == "cpu")
        & (ops["role"] == Role.COMPUTE)
        & ~ops["type"].isin(PYTHON_CALLBACKS)
    ]
    if found.empty and not any(_required(run)):
        return
    described = [(h, name) for h in run.hosts for name in h.tables.facts.accelerators]
    missed = any(h.tables.facts.gpu_may_be_missed for h in run.hosts)
    certainty: Certainty = "possible" if missed else "likely"
    captured = [h.capture_file for h in run.hosts if h.capture_file is not None]
    required = list(_required(run))
    lacked = [capture_file for capture_file, _ in required]
    if len(captured) == len(run.hosts) and all(saw_no_gpu(s) or s in lacked for s in captured):
        yield _recorded(tuple(found["op_id"]), captured, required)
        return
    if found.empty:
        return
    yield Finding(
        cause=CAUSE.id,
        sub_reason="gpu_described_but_unused" if described else None,
        scope="",
        certainty=certainty,
        harm="harmful",
        title="The trace shows no use of a GPU, and its GPU tracer was off or failed"
        if missed
        else "TensorFlow used no GPU: every op ran on the CPU",
        why=(
            "Nothing in the trace shows that TensorFlow had a GPU. "
            + (
                "The profiler did describe one, so the machine has it and its driver answers: "
                "TensorFlow itself did not take it, as happens when CUDA libraries it needs cannot "
                "be loaded or the GPU is hidden from it. "
                if described
                else ""
            )
            + "Soft placement, the default, then runs every op on the CPU without a word."
        ),
        op_ids=tuple(found["op_id"]),
        evidence=(*_evidence(run), _coverage(found, run)),
        fixes=(
            _ASK,
            _INSTALL,
            Fix(text="See that CUDA_VISIBLE_DEVICES is unset or names the GPU."),
        ),
    )


def _required(run: Run) -> Iterator[tuple[CaptureFile, Failure]]:
    """Walk the programs that failed because they asked for a GPU that was not there."""
    for host in run.hosts:
        failed = failure(host.capture_file) if host.capture_file is not None else None
        if host.capture_file is not None and failed is not None and failed.missing:
            yield host.capture_file, failed


def _recorded(
    op_ids: tuple[str, ...],
    captured: Sequence[CaptureFile],
    required: Sequence[tuple[CaptureFile, Failure]],
) -> Finding:
    """Return the finding of a captured program, whose devices are known."""
    every = dict.fromkeys(o for capture_file in captured for o in obstacles(capture_file))
    # A program may have hidden GPUs because there are none: where none is known, that is no cause.
    has_gpu = any(capture_file.gpus for capture_file in captured)
    doubted = [o for o in every if o.proviso and not has_gpu and o.frame is not None]
    known = [*(o for o in every if o not in doubted), *doubted]
    first = next((o for o in known if o not in doubted), None)
    title = "TensorFlow had no GPU: every op ran on the CPU"
    if first is not None:
        title = f"TensorFlow had no GPU: {_TITLES[first.reason]}{_at(first)}"
    fixes = [_fix(o) for o in known] or [_ASK]
    sub_reason = None if first is None else first.reason
    errors: list[Evidence] = []
    for capture_file, failed in required:
        sub_reason = "gpu_required"
        title = f"The program failed{f' at {failed.at}' if failed.at else ''}: {failed.requires}"
        errors.append(raised_evidence(capture_file, failed.error, failed.said))
        if failed.is_strict:
            fixes.insert(0, _soft_placement(capture_file))
    listed = () if all(map(ran_in_sessions_alone, captured)) else (_LISTED,)
    return Finding(
        cause=CAUSE.id,
        sub_reason=sub_reason,
        scope="",
        certainty="certain",
        harm="harmful",
        title=title,
        why=(
            "TensorFlow had no GPU. Without soft placement an op that requires one fails."
            if any(failed.is_strict for _, failed in required)
            else "The devices that TensorFlow had were recorded, and no GPU is among them. Soft "
            "placement, the default, then runs every op on the CPU without a word, under "
            "`tf.device('/GPU:0')` too."
            if listed
            else "The devices of the program's sessions were recorded, and no GPU is among them. "
            "All that asks for no device then runs on the CPU; with soft placement what asks for a "
            "GPU, too."
        ),
        op_ids=op_ids,
        evidence=(
            *errors,
            *listed,
            *map(_obstacle_evidence, known),
        ),
        fixes=tuple(dict.fromkeys(fixes)),
    )


def hidden_there(op_ids: tuple[str, ...], capture_files: Sequence[CaptureFile]) -> Finding | None:
    """Return that a program hides the GPU of any machine from itself, or None.

    Args:
        op_ids: The ops that are on the CPU for it.
        capture_files: What was captured.
    """
    known = list(
        dict.fromkeys(o for capture_file in capture_files for o in of_the_program(capture_file))
    )
    if not known:
        return None
    first = min(known, key=lambda o: _ORDER.index(o.certainty or "possible"))
    sure = first.certainty == "certain"
    return Finding(
        cause=CAUSE.id,
        sub_reason=first.reason,
        scope="on a GPU machine",
        certainty=first.certainty or "possible",
        harm="harmful",
        title=(
            f"Every op {'would' if sure else 'may'} be on the CPU there too: "
            f"{(_TITLES if sure else _UNSURE)[first.reason]}{_at(first)}"
        ),
        why=(
            "The program hides the GPU from TensorFlow, on a machine with a GPU as on this one. "
            "The other findings of this section hold once it no longer does."
            if sure
            else "The program left no GPU visible on this machine. It may do otherwise on one that "
            f"has a GPU. {first.proviso} The other findings of this section hold if it does."
        ),
        op_ids=op_ids,
        evidence=tuple(map(_obstacle_evidence, known)),
        fixes=tuple(dict.fromkeys(map(_fix, known))),
    )


def _at(obstacle: Obstacle) -> str:
    return "" if obstacle.frame is None else f" at {line_text(obstacle.frame)}"


def _obstacle_evidence(obstacle: Obstacle) -> Evidence:
    where = _WHERE.get(obstacle.reason)
    return line_evidence(obstacle.reason, obstacle.text, obstacle.frame, where)


def _fix(obstacle: Obstacle) -> Fix:
    """Return what to change, with the program's own line where that is known."""
    fix = _FIXES[obstacle.reason]
    frame = obstacle.frame
    if frame is None:
        return fix
    text = f"Remove {line_text(frame)}, which hides the GPU."
    if obstacle.proviso:
        text = f"See that {line_text(frame)} does not hide the GPU where there is one."
    return Fix(text=text, code=frame.text)


def _soft_placement(capture_file: CaptureFile) -> Fix:
    """Return how to switch soft placement on, with the other options left as they are."""
    if not ran_in_sessions_alone(capture_file):
        return _SOFT
    has_config = any(config.is_own for config in capture_file.session_configs)
    return _SOFT_IN_CONFIG if has_config else _SOFT_IN_SESSIONS


_LISTED: Final = Evidence(
    kind="devices",
    text="tf.config.list_logical_devices() of the program has no GPU",
    where=CaptureFileWhere(sidecar="devices.logical"),
)
_TITLES: Final = {
    "cpu_only_build": "this build of it is for CPUs alone",
    "hidden_by_config": "the program hides the GPU",
    "hidden_by_session": "its sessions are told to have none",
    "hidden_by_env": "CUDA_VISIBLE_DEVICES hides it",
    "hidden_by_script": "the program sets CUDA_VISIBLE_DEVICES to hide the GPU",
    "libraries_not_loaded": "libraries of CUDA could not be loaded",
    "filtered_by_tf": "it does not take the one there is",
    "driver_not_found": "no driver was found",
    "cuda_init_failed": "CUDA could not be started",
}
_UNSURE: Final = {
    "hidden_by_config": "the program may hide the GPU",
    "hidden_by_session": "its sessions may be told to have none",
    "hidden_by_script": "the program may set CUDA_VISIBLE_DEVICES to hide the GPU",
}
_ORDER: Final = ("certain", "likely", "possible")
_ASK: Final = Fix(
    text="Ask TensorFlow which GPUs it sees, and read what it prints when imported.",
    code=("python -c \"import tensorflow as tf; print(tf.config.list_physical_devices('GPU'))\""),
)
_SOFT: Final = Fix(
    text="To run without that GPU too, let TensorFlow use the CPU where a device does not exist.",
    code="tf.config.set_soft_device_placement(True)",
)
_SOFT_IN_SESSIONS: Final = Fix(
    text=_SOFT.text,
    code="tf.compat.v1.Session(config=tf.compat.v1.ConfigProto(allow_soft_placement=True))",
)
_SOFT_IN_CONFIG: Final = Fix(
    text=(
        f"{_SOFT.text} Set this in the ConfigProto that the session is given; its other options "
        "can stay."
    ),
    code="config.allow_soft_placement = True",
)
_INSTALL: Final = Fix(
    text="On Linux, install TensorFlow together with the CUDA libraries it needs.",
    code="pip install 'tensorflow[and-cuda]'",
)
_DRIVER: Final = Fix(
    text=(
        "See that NVIDIA's driver is installed and answers; a container must be started with "
        "access to the GPUs."
    ),
    code="nvidia-smi",
)
_FIXES: Final = {
    "cpu_only_build": _INSTALL,
    "hidden_by_config": Fix(
        text="Remove the call that leaves no GPU visible.",
        code="tf.config.set_visible_devices([], 'GPU')  # this one",
    ),
    "hidden_by_session": Fix(
        text="Leave `device_count` out of what the session is given, or let it have a GPU.",
        code="config = tf.compat.v1.ConfigProto()  # no device_count={'GPU': 0}",
    ),
    "hidden_by_env": Fix(
        text="Unset the variable, or let it name the GPU.", code="unset CUDA_VISIBLE_DEVICES"
    ),
    "hidden_by_script": Fix(
        text="Remove the line that sets CUDA_VISIBLE_DEVICES, or let it name the GPU.",
        code='os.environ["CUDA_VISIBLE_DEVICES"] = "0"',
    ),
    "libraries_not_loaded": _INSTALL,
    "filtered_by_tf": Fix(
        text=(
            "TensorFlow leaves out GPUs that are older than its build supports, or smaller than "
            "the largest: its message names the limit."
        ),
        code="export TF_MIN_GPU_MULTIPROCESSOR_COUNT=1",
    ),
    "driver_not_found": _DRIVER,
    "cuda_init_failed": _DRIVER,
}
_WHERE: Final = {
    "cpu_only_build": CaptureFileWhere(sidecar="environment.tensorflow.build"),
    "hidden_by_config": CaptureFileWhere(sidecar="devices.visible"),
    "hidden_by_session": CaptureFileWhere(sidecar="session_configs"),
    "hidden_by_env": CaptureFileWhere(sidecar="environment.variables"),
    "hidden_by_script": CaptureFileWhere(sidecar="visibility"),
    "libraries_not_loaded": CaptureFileWhere(sidecar="log"),
    "filtered_by_tf": CaptureFileWhere(sidecar="log"),
    "driver_not_found": CaptureFileWhere(sidecar="log"),
    "cuda_init_failed": CaptureFileWhere(sidecar="log"),
}


def _evidence(run: Run) -> Iterator[Evidence]:
    for host in run.hosts:
        facts = host.tables.facts
        for name, events in facts.accelerators.items():
            yield Evidence(
                kind="device_plane",
                text=f"{name} is described, with {counted(events, 'event')} on it",
                where=TraceWhere(host=host.name, plane=name, line=None),
            )
        if not facts.accelerators:
            yield Evidence(
                kind="device_plane",
                text="the trace has no GPU plane, and no transfer or allocation names a GPU",
                where=TraceWhere(host=host.name, plane="/host:CPU", line=None),
            )
        if facts.gpu_may_be_missed:
            yield Evidence(
                kind="tracer",
                text="the GPU tracer was off or reported an error, so a GPU may have been missed",
                where=TraceWhere(host=host.name, plane="Task Environment", line=None),
            )


def _coverage(found: pd.DataFrame, run: Run) -> Evidence:
    """Return what of it would likely have run on a GPU."""
    version = None if run.version is None else run.version.value
    return Evidence(kind="kernel_registry", text=coverage_text(found, version))


CAUSE = Cause(
    id="no_gpu_visible",
    title="TensorFlow used no GPU",
    documentation=__doc__,
    not_applicable=_not_applicable,
    check=_check,
)

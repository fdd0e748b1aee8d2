"""What a program does already, so that advice is not about something it has done."""

import re
from collections import Counter
from typing import Final

import numpy as np

from traceanalyzer.changes.source import Sources
from traceanalyzer.run import Host, Run
from traceanalyzer.tables.steps import regular_steps

_SEVERAL: Final = 1.5  # batches per step
_HALF: Final = re.compile(r"half|fp16|bf16|hgemm|[hs]884|f16|bfloat16", re.IGNORECASE)
_IN_HALF: Final = 0.1  # share of the kernel time from which a program uses half precision
_LOOPS: Final = ("fit", "evaluate", "predict", "train_on_batch")  # of Keras' models
# Ops whose kernels tensor cores speed up in half precision.
_FASTER_IN_HALF: Final = re.compile(
    r"(Batch)?MatMul\w*|_?\w*FusedMatMul|\w*Conv[23]D\w*|Einsum|Cudnn\w+"
)


def fetches_several_batches(host: Host) -> bool:
    """Return whether a call of a function already takes several batches, as one step."""
    steps, requests = regular_steps(host.tables.steps), host.tables.pipelines.requests
    start = steps["start_ps"].to_numpy(np.int64)
    end = start + steps["duration_ps"].to_numpy(np.int64)
    begun = np.sort(requests.start_ps)
    number = np.searchsorted(begun, end) - np.searchsorted(begun, start)
    return bool(len(number)) and float(np.median(number)) >= _SEVERAL


def uses_xla(run: Run) -> bool:
    """Return whether XLA compiled any op of the program."""
    return bool(run.ops["placement"].astype(str).str.startswith("xla").any())


def share_in_full_precision(run: Run) -> float:
    """Return the share of the kernel time of ops that half precision would speed up.

    0 if the program uses half precision already.
    """
    kernels = run.kernels
    took = kernels["duration_ps"].astype(float)
    total = float(took.sum())
    names = kernels["name"].astype(str)
    is_half = names.map({name: bool(_HALF.search(name)) for name in names.unique()})
    if not total or took[is_half.astype(bool)].sum() >= _IN_HALF * total:
        return 0.0
    types = run.ops.set_index("op_id")["type"].astype(str)
    faster = types.index[types.str.fullmatch(_FASTER_IN_HALF)]
    return float(took[kernels["op_id"].isin(faster)].sum()) / total


def keras_runs_eagerly(run: Run, sources: Sources) -> bool:
    """Return whether most eager ops of the program were made in a call of a Keras model's loop."""
    eager = run.ops[run.ops["is_eager"]].dropna(subset=["source_file", "source_line"])
    if eager.empty:
        return False
    ran: Counter[tuple[str, int]] = Counter()
    columns = (eager["source_file"].astype(str), eager["source_line"], eager["occurrences"])
    for file, line, times in zip(*columns, strict=True):
        ran[file, int(line)] += int(times)
    ((place, _),) = ran.most_common(1)
    return sources.call(*place, *_LOOPS) is not None


def functions_run_eagerly(run: Run) -> bool:
    """Return whether a setting of the program makes TensorFlow run functions op by op."""
    return any((c.devices or {}).get("functions_run_eagerly") for _, c in run.captured)

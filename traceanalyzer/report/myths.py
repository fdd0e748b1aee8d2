"""What is often suspected of moving ops to the CPU, and what it did in this run.

TensorFlow places ops by kernels, requests, and colocation (placer.cc, colocation_graph.cc). Memory,
load, and the cost of transfers play no part in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.causes.knowledge.exhaustion import exhaustion
from traceanalyzer.causes.knowledge.gpu_memory import driver_gpus, gpu_memory
from traceanalyzer.format import counted, listed, percent_text, size_text
from traceanalyzer.model import Myth
from traceanalyzer.tables.vocabulary import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd

    from traceanalyzer.causes.knowledge.gpu_memory import OtherProcess
    from traceanalyzer.run import Host, Run

_ACROSS: Final = ("h2d", "d2h")
_DOUBLE: Final = "double"
_ALLOCATOR: Final = "TF_GPU_ALLOCATOR"


def myths(run: Run) -> tuple[Myth, ...]:
    """Answer what the run has figures for; nothing if TensorFlow used no GPU."""
    return tuple(_answers(run)) if run.gpu_used else ()


def memory_peak(run: Run) -> str:
    """Return how full the fullest GPU of a run was, as the start of a sentence; "" if unknown."""
    fullest = ""
    most = -1.0
    several = len(run.hosts) > 1
    for host in run.hosts:
        for gpu in gpu_memory(host):
            if gpu.peak_bytes is None or not gpu.room_bytes:
                continue
            share = gpu.peak_bytes / gpu.room_bytes
            if share > most:
                most = share
                where = f"GPU:{gpu.number}" + (f" of {host.name}" if several else "")
                fullest = (
                    f"GPU memory peaked at {percent_text(share)} ({size_text(gpu.peak_bytes)} of "
                    f"{gpu.room_words(where)})"
                )
    return fullest


def _answers(run: Run) -> Iterator[Myth]:
    peak = memory_peak(run)
    if peak:
        yield Myth(
            id="memory",
            question="Was GPU memory full?",
            answer=(
                f"{peak}. That moved no op to the CPU: out of memory, TensorFlow raises "
                f"ResourceExhausted{_raised(run)}."
            ),
        )
    for host in run.hosts:
        yield from _other_processes(host)
    yield from _copies(run.transfers)
    yield from _float64(run.ops)
    for host in run.hosts:
        yield from _allocator(host)


def _raised(run: Run) -> str:
    if all(host.capture_file is None for host in run.hosts):
        return ""
    errors = [
        e
        for host in run.hosts
        for e in (() if host.capture_file is None else host.capture_file.errors)
        if e.where == "resource_exhausted" and exhaustion(e.message).is_of_memory
    ]
    times = "once" if len(errors) == 1 else counted(len(errors), "time")
    return f" (here {times})" if errors else " (not here)"


def _other_processes(host: Host) -> Iterator[Myth]:
    if host.capture_file is None:
        return
    for gpu, others in driver_gpus(host.capture_file):
        if not others:
            continue
        used = sum(other.bytes or 0 for other in others)
        text = (
            f"{counted(len(others), 'other process')}{_named(others)} on GPU {gpu.get('index', 0)}"
        )
        text += f" held {size_text(used)} of its memory" if used else ""
        rates = gpu.get("utilisation_percent")
        mean = rates.get("mean") if isinstance(rates, dict) else None
        if isinstance(mean, int | float):
            text += f"; it was busy {mean:.0f} % of the time"
        yield Myth(
            id="other_processes",
            question="Were other processes on the GPU?",
            answer=(
                f"{text}. That moved no op to the CPU: placement does not depend on load. On a "
                "busy GPU, an op waits."
            ),
        )


def _named(others: Sequence[OtherProcess]) -> str:
    names = list(dict.fromkeys(other.name for other in others if other.name))
    return f" ({listed(names)})" if names else ""


def _copies(copies: pd.DataFrame) -> Iterator[Myth]:
    across = copies[copies["direction"].isin(_ACROSS)]
    if across.empty:
        return
    size = int(across["bytes"].sum())
    sized = f" ({size_text(size)})" if size else ""
    yield Myth(
        id="transfer_cost",
        question="Were transfers too expensive?",
        answer=(
            f"{counted(len(across), 'transfer')}{sized} between host and GPU moved no op to the "
            "CPU: TensorFlow does not weigh transfers when it places ops."
        ),
    )


def _float64(ops: pd.DataFrame) -> Iterator[Myth]:
    takes = (isinstance(types, str) and _DOUBLE in types.split(";") for types in ops["input_types"])
    double = ops[np.fromiter(takes, np.bool_, len(ops))]
    double = double[double["role"] == Role.COMPUTE]
    placement = double["placement"].astype(str)
    on_gpu = double[placement.str.startswith("gpu")]
    if on_gpu.empty:
        return
    types = on_gpu["type"].astype(str).drop_duplicates().tolist()
    text = f"{counted(len(on_gpu), 'float64 op')} ran on the GPU ({listed(types)})"
    on_cpu = int((placement == "cpu").sum())
    rest = f" {counted(on_cpu, 'float64 op')} ran on the CPU, for the causes given there."
    yield Myth(
        id="float64",
        question="Was it float64?",
        answer=(
            f"{text}. Nearly all ops with a GPU kernel have one for float64. It can be slow on a "
            f"GPU, but that does not move ops to the CPU.{rest if on_cpu else ''}"
        ),
    )


def _allocator(host: Host) -> Iterator[Myth]:
    variables = ((host.capture_file.environment if host.capture_file else None) or {}).get(
        "variables"
    )
    chosen = variables.get(_ALLOCATOR) if isinstance(variables, dict) else None
    if isinstance(chosen, str) and chosen:
        yield Myth(
            id="gpu_allocator",
            question=f"Was it {_ALLOCATOR}?",
            answer=(
                f"{_ALLOCATOR} is {chosen!r}. It sets how memory is requested from the driver, and "
                "moved no op to the CPU."
            ),
        )

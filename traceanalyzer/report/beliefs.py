"""What many believe moves ops to the CPU, and what it did in this run: the figures, and that.

TensorFlow places ops by kernels, requests and what must stay together (placer.cc,
colocation_graph.cc): memory, load and the cost of copies take no part in it. Who looks for such a
reason finds the figures of the run here. What the run has no figures for is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.causes.knowledge.exhaustion import exhaustion
from traceanalyzer.causes.knowledge.gpu_memory import driver_gpus, gpu_memory
from traceanalyzer.format import counted, listed, percent_text, size_text
from traceanalyzer.model import Belief
from traceanalyzer.tables.vocabulary import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd

    from traceanalyzer.causes.knowledge.gpu_memory import OtherProcess
    from traceanalyzer.run import Host, Run

__all__ = ["beliefs", "memory_peak"]

_ACROSS: Final = ("h2d", "d2h")
_DOUBLE: Final = "double"
_ALLOCATOR: Final = "TF_GPU_ALLOCATOR"


def beliefs(run: Run) -> tuple[Belief, ...]:
    """Answer what a run has figures for; nothing where TensorFlow used no GPU."""
    return tuple(_answers(run)) if run.gpu_used else ()


def memory_peak(run: Run) -> str:
    """Return how full the fullest GPU of a run was, as a sentence's beginning; "" if not known."""
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


def _answers(run: Run) -> Iterator[Belief]:
    peak = memory_peak(run)
    if peak:
        yield Belief(
            id="memory",
            question="Was the GPU's memory too full?",
            answer=(
                f"{peak}. That moved no op to the CPU: TensorFlow raises ResourceExhausted "
                f"instead{_raised(run)}."
            ),
        )
    for host in run.hosts:
        yield from _other_processes(host)
    yield from _copies(run.transfers)
    yield from _float64(run.ops)
    for host in run.hosts:
        yield from _allocator(host)


def _raised(run: Run) -> str:
    """Return how often it did, where a capture tells."""
    if all(host.capture_file is None for host in run.hosts):
        return ""
    errors = [
        e
        for host in run.hosts
        for e in (() if host.capture_file is None else host.capture_file.errors)
        if e.where == "resource_exhausted" and exhaustion(e.message).is_of_memory
    ]
    times = "once" if len(errors) == 1 else counted(len(errors), "time")
    return f", here {times}" if errors else ", and did not here"


def _other_processes(host: Host) -> Iterator[Belief]:
    if host.capture_file is None:
        return
    for gpu, others in driver_gpus(host.capture_file):
        if not others:
            continue
        held = sum(other.bytes or 0 for other in others)
        text = (
            f"{counted(len(others), 'other process')}{_named(others)} on GPU {gpu.get('index', 0)}"
        )
        text += f" held {size_text(held)} of its memory" if held else ""
        rates = gpu.get("utilisation_percent")
        mean = rates.get("mean") if isinstance(rates, dict) else None
        if isinstance(mean, int | float):
            text += f"; it was busy {mean:.0f} % of the time"
        yield Belief(
            id="other_processes",
            question="Were other processes on the GPU?",
            answer=(
                f"{text}. That moved no op to the CPU: where an op runs is settled before, and on "
                "a busy GPU it waits."
            ),
        )


def _named(others: Sequence[OtherProcess]) -> str:
    names = list(dict.fromkeys(other.name for other in others if other.name))
    return f" ({listed(names)})" if names else ""


def _copies(copies: pd.DataFrame) -> Iterator[Belief]:
    across = copies[copies["direction"].isin(_ACROSS)]
    if across.empty:
        return
    size = int(across["bytes"].sum())
    sized = f", {size_text(size)} in all," if size else ""
    yield Belief(
        id="transfer_cost",
        question="Were copies to and from the GPU too dear?",
        answer=(
            f"{counted(len(across), 'copy')}{sized} went between host and GPU. That moved no op to "
            "the CPU: TensorFlow compares no cost of copies with a speed-up. Copies follow from "
            "where ops are, and not the other way about."
        ),
    )


def _float64(ops: pd.DataFrame) -> Iterator[Belief]:
    takes = (isinstance(types, str) and _DOUBLE in types.split(";") for types in ops["input_types"])
    double = ops[np.fromiter(takes, np.bool_, len(ops))]
    double = double[double["role"] == Role.COMPUTE]
    placement = double["placement"].astype(str)
    on_gpu = double[placement.str.startswith("gpu")]
    if on_gpu.empty:
        return
    types = on_gpu["type"].astype(str).drop_duplicates().tolist()
    text = f"{counted(len(on_gpu), 'op')} on float64 ran on the GPU ({listed(types)})"
    on_cpu = int((placement == "cpu").sum())
    rest = f" {counted(on_cpu, 'op')} on float64 ran on the CPU, for the causes given with them."
    yield Belief(
        id="float64",
        question="Was it float64?",
        answer=(
            f"{text}. Nearly all ops that have a GPU kernel have one for float64: it can be slow "
            f"on a GPU, and is not moved away for that.{rest if on_cpu else ''}"
        ),
    )


def _allocator(host: Host) -> Iterator[Belief]:
    variables = ((host.capture_file.environment if host.capture_file else None) or {}).get(
        "variables"
    )
    chosen = variables.get(_ALLOCATOR) if isinstance(variables, dict) else None
    if isinstance(chosen, str) and chosen:
        yield Belief(
            id="gpu_allocator",
            question=f"Was it {_ALLOCATOR}?",
            answer=(
                f"{_ALLOCATOR} is {chosen!r}. It says how memory is taken from the driver, and "
                "moved no op to the CPU."
            ),
        )

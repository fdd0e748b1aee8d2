"""The ops of a run that are on the CPU, or would be on a machine with GPUs, each with its case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pandas as pd

from traceanalyzer.evidence.cases import Case, ReplayedCases, case_by_registry, doubted
from traceanalyzer.evidence.differences import doubt_on_a_gpu
from traceanalyzer.placement.program import machine_of, with_gpus
from traceanalyzer.tables.host_ops import UNTOLD_TYPE
from traceanalyzer.tables.vocabulary import Role

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.placement.devices import Machine
    from traceanalyzer.run import Host, Run
    from traceanalyzer.tables.joined import OpRecord

__all__ = ["Analysis", "Subject", "analyse", "analyse_on_a_gpu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An op on the CPU.

    Attributes:
        op_id: Its row of the op table.
        host: Its host.
        name: Its name.
        type: Its type, as the trace has it.
        function: The function it ran in, "" for none.
        file: The user's file that asked for it, or None.
        line: The line in it, or None.
        host_self_ps: Its time.
        requested_device: What was asked for it; None where not known.
        case: What is known to keep it from a GPU.
        node: The function that was instantiated, and its node; "" where a capture tells of none.
        is_eager: Whether it ran eagerly.
    """

    op_id: str
    host: str
    name: str
    type: str
    function: str
    file: str | None
    line: int | None
    host_self_ps: int
    requested_device: str | None
    case: Case
    node: tuple[str, str] = ("", "")
    is_eager: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class Analysis:
    """The ops of a run on the CPU, and what keeps them from a GPU.

    Attributes:
        run: The run.
        machine: The machine that was assumed, or None for the run's own.
        subjects: The ops, in the order of the op table.
    """

    run: Run
    machine: Machine | None
    subjects: tuple[Subject, ...]


# What was found of the runs that are still in use.
_FOUND: WeakKeyDictionary[Run, tuple[Subject, ...]] = WeakKeyDictionary()


def analyse(run: Run) -> Analysis:
    """Find what keeps the ops of a run from its GPU; nothing where it had none.

    Rules ask for it too: a run is gone through but once.
    """
    subjects = _FOUND.get(run)
    if subjects is None:
        hosts = run.hosts if run.gpu_used else ()
        subjects = _FOUND[run] = tuple(s for host in hosts for s in _on_cpu(run, host))
    return Analysis(run=run, machine=None, subjects=subjects)


def analyse_on_a_gpu(run: Run, gpus: int = 1) -> Analysis | None:
    """Find what would keep the ops of a run from GPUs that its machine did not have.

    Returns:
        None where it had one, or nothing was captured beside the trace.
    """
    if run.gpu_used:
        return None
    subjects: list[Subject] = []
    machine: Machine | None = None
    for host in run.hosts:
        if host.sidecar is None:
            continue
        machine = with_gpus(machine_of(host.sidecar), gpus)
        replayed = ReplayedCases(host.sidecar, machine)
        for row, record in _rows(host):
            if row.role == Role.COMPUTE and record is not None:
                case = replayed.of(str(row.type), record)
                if case is not None:
                    doubt = doubt_on_a_gpu(host.sidecar, record.function)
                    subjects.append(_subject(row, record, doubted(case, doubt)))
    if machine is None:
        return None
    return Analysis(run=run, machine=machine, subjects=tuple(subjects))


def _on_cpu(run: Run, host: Host) -> Iterator[Subject]:
    replayed = None if host.sidecar is None else ReplayedCases(host.sidecar)
    version = None if run.version is None else run.version.value
    for row, record in _rows(host):
        if row.placement != "cpu" or row.role != Role.COMPUTE:
            continue
        case: Case | None = None
        if replayed is not None and record is not None:
            case = replayed.of(str(row.type), record) or Case(
                type=str(row.type),
                contradiction="a replay of its placement does not put it on the CPU",
            )
        if case is None or (case.basis == "none" and not case.contradiction):
            case = case_by_registry(str(row.type), _types(row.input_types), version)
        yield _subject(row, record, case)


def _rows(host: Host) -> Iterator[tuple[Any, OpRecord | None]]:
    ops, joined = host.tables.ops, host.tables.joined
    records = (None,) * len(ops) if joined is None else joined.records
    yield from zip(ops.itertuples(index=False), records, strict=True)


def _types(text: object) -> list[str] | None:
    if not isinstance(text, str):
        return None
    types = text.split(";") if text else []
    return None if UNTOLD_TYPE in types else types


def _subject(
    row: Any,  # noqa: ANN401 - a row of the op table
    record: OpRecord | None,
    case: Case,
) -> Subject:
    return Subject(
        op_id=row.op_id,
        host=str(row.host),
        name=str(row.name),
        type=str(row.type),
        function=row.function if isinstance(row.function, str) else "",
        file=row.source_file if isinstance(row.source_file, str) else None,
        line=None if pd.isna(row.source_line) else int(row.source_line),
        host_self_ps=int(row.host_self_ps),
        requested_device=row.requested_device if isinstance(row.requested_device, str) else None,
        case=case,
        node=("", "") if record is None else (record.function, record.node),
        is_eager=bool(row.is_eager),
    )

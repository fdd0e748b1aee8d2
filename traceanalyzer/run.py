"""Loads a profiled run: the joined tables of its hosts, and how it was recorded."""

from __future__ import annotations

import filecmp
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, wraps
from pathlib import Path
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

import networkx as nx
import pandas as pd

from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.capture_file.graph_files import event_graphs, read_graphs
from traceanalyzer.errors import (
    GraphFileError,
    TraceAnalyzerError,
    TraceFormatError,
    TraceTooLargeError,
)
from traceanalyzer.format import counted, encodable, printable
from traceanalyzer.input_pipeline.verdict import HostInput, InputUse, host_input, input_use
from traceanalyzer.memory import AllocatorUse, memory_use
from traceanalyzer.tables.arrays import mask
from traceanalyzer.tables.device_events import device_planes
from traceanalyzer.tables.host_tables import HostTables, event_rows, holds_other_ops, host_tables
from traceanalyzer.tables.program_graphs import GraphFinder
from traceanalyzer.tables.recording import Beside, capture_beside
from traceanalyzer.tables.schema import ALLOCATIONS, KERNELS, OPS, STAGES, STEPS, TRANSFERS, Schema
from traceanalyzer.tables.vocabulary import is_derived_line
from traceanalyzer.timeline.device_parts import HostTimeline, host_timeline, with_exposed
from traceanalyzer.trace.columns import Trace
from traceanalyzer.trace.discovery import CAPTURE_FILE, HostFile, RunFiles, choose_run, find_runs
from traceanalyzer.trace.files import read_host
from traceanalyzer.trace.tfevents import VersionSighting, tf_version
from traceanalyzer.transfers.costs import TransferCosts, transfer_costs
from traceanalyzer.transfers.graph import transfer_graph
from traceanalyzer.transfers.traffic import HostFacts, Traffic, measure

_log = logging.getLogger("traceanalyzer")
_NO_TRACE: Final = Trace(planes=())
_Answer = TypeVar("_Answer")


@dataclass(frozen=True, kw_only=True)
class HostFailure:
    """A host whose trace could not be read or was skipped."""

    host: str
    reason: str  #: in one line
    is_duplicate: bool = False  #: whether its file is byte for byte another host's


@dataclass(frozen=True, eq=False, kw_only=True)
class Host:
    """One host of a run."""

    name: str  #: from its file's name
    file: HostFile | None  #: the file it was read from; None for rows made by hand
    tables: HostTables
    start_ps: int  #: start of its first event
    end_ps: int  #: end of its last event
    device_properties: dict[str, dict[str, str]]  #: by the name of a device's plane
    trace: Trace = _NO_TRACE  #: its trace, without the planes
    timeline: HostTimeline = field(default_factory=HostTimeline)
    capture_file: CaptureFile | None = None
    session: int | None = None  #: the capture file's session that wrote this trace, if known
    capture_file_problem: str = ""  #: why an existing capture file is not used
    capture_file_is_foreign: bool = False  #: whether it belongs to another recording
    unnamed_events: int = 0  #: events whose name is missing

    @cached_property
    def memory(self) -> tuple[AllocatorUse, ...]:
        """The memory use of each of the host's allocators."""
        return memory_use(self.tables.allocations, self.tables.steps)

    @cached_property
    def input_pipeline(self) -> HostInput | None:
        """The verdict on the host's input pipelines, or None if it has none."""
        return host_input(
            self.name,
            self.tables.stages,
            self.tables.pipelines,
            self.tables.steps,
        )

    def events(self) -> pd.DataFrame:
        """Read the host's trace again and return a row for each event."""
        if self.file is None:
            msg = f"{self.name}: the host was not read from a file, so there are no events"
            raise TraceFormatError(msg)
        return event_rows(self.name, read_host(self.file, near_ns=self.trace.origin_ns))


def _joined(schema: Schema) -> cached_property[pd.DataFrame]:
    return cached_property(
        lambda run: schema.frame([getattr(host.tables, schema.name) for host in run.hosts])
    )


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Run:
    """A profiled run. `tables/schema.toml` lists the columns of its tables."""

    name: str  #: its directory
    path_name: str  #: last part of the path that was given to `load`
    hosts: tuple[Host, ...]  #: the hosts that could be read
    failures: tuple[HostFailure, ...] = ()  #: those that could not, or were left out
    other_runs: tuple[str, ...] = ()  #: names of the other runs at the same path
    version: VersionSighting | None = None  #: TensorFlow's version, if known

    def __repr__(self) -> str:
        hosts, ops = counted(len(self.hosts), "host"), counted(len(self.ops), "op")
        return f"Run({self.name!r}, {hosts}, {ops})"

    @property
    def tensorflow_version(self) -> str | None:
        """TensorFlow's version, such as `2.21.0`, or None if unknown."""
        return None if self.version is None else self.version.value

    @property
    def captured(self) -> list[tuple[Host, CaptureFile]]:
        """The hosts that have a capture file, each with its file."""
        return [(h, h.capture_file) for h in self.hosts if h.capture_file is not None]

    ops = _joined(OPS)  #: a row for each op of each host
    kernels = _joined(KERNELS)  #: a row for each kernel
    transfers = _joined(TRANSFERS)  #: a row for each transfer
    allocations = _joined(ALLOCATIONS)  #: a row for each allocation and deallocation
    steps = _joined(STEPS)  #: a row for each step; empty if none is marked or inferred
    stages = _joined(STAGES)  #: a row for each stage of an input pipeline (tf.data)

    @cached_property
    def input_pipeline(self) -> InputUse | None:
        """The verdict on the run's input pipelines, or None if it has none."""
        found = [h.input_pipeline for h in self.hosts]
        return input_use([use for use in found if use is not None])

    @cached_property
    def events(self) -> pd.DataFrame:
        """A row for each event of each host, read from the trace files on first use."""
        return pd.concat([h.events() for h in self.hosts], ignore_index=True)

    @cached_property
    def transfer_graph(self) -> nx.MultiDiGraph[str]:
        """The graph of transfers between ops."""
        return transfer_graph(self.traffic, self.ops)

    @cached_property
    def traffic(self) -> Traffic:
        """The transfers with their sources, targets, links, steps, and overlap with kernels."""
        return measure(self.transfers, self.kernels, self.steps, self._facts)

    @cached_property
    def transfer_costs(self) -> TransferCosts:
        """The costs of transfers: small transfers, device-to-host syncs, and round trips."""
        return transfer_costs(self.traffic, self.ops, self._facts)

    @property
    def _facts(self) -> list[HostFacts]:
        return [
            HostFacts(
                name=h.name,
                device_properties=h.device_properties,
                capture_file=h.capture_file,
                joined=h.tables.joined,
            )
            for h in self.hosts
        ]

    @property
    def gpu_used(self) -> bool:
        """Whether TensorFlow used a GPU on any host."""
        return any(h.tables.facts.gpu_used for h in self.hosts)

    @property
    def duration_ps(self) -> int:
        """The longest time from a host's first event to its last."""
        return max((h.end_ps - h.start_ps for h in self.hosts), default=0)


def once_per_run(function: Callable[[Run], _Answer]) -> Callable[[Run], _Answer]:
    """Cache a function's result for each run while the run is in use."""
    found: WeakKeyDictionary[Run, _Answer] = WeakKeyDictionary()

    @wraps(function)
    def of_run(run: Run) -> _Answer:
        if run not in found:
            found[run] = function(run)
        return found[run]

    return of_run


def runs(path: str | Path) -> tuple[str, ...]:
    """Return the names of the runs at a path, newest first.

    Args:
        path: A log directory, a run directory, or a trace file.

    Raises:
        TraceNotFoundError: The path contains no run.
    """
    return tuple(run.name for run in find_runs(path))


def load(
    path: str | Path,
    run: str | None = None,
    *,
    graphs: Sequence[str | Path] = (),
    max_memory_bytes: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Run:
    """Read a profile and build its tables.

    Args:
        path: A log directory, a run directory, or a trace file.
        run: Name of the run to read. Defaults to the newest run.
        graphs: SavedModels, GraphDefs, or RunMetadata of the program, for a trace without a capture
            file. Defaults to the graphs in events files beside the trace.
        max_memory_bytes: Refuse a file whose report is estimated to need more memory than this.
            Defaults to 75% of the machine's memory.
        progress: Called with a line of text for each file that is read.

    Raises:
        TraceNotFoundError: There is no trace, or no run of that name.
        TraceFormatError: None of the run's files can be read.
        GraphFileError: A graph cannot be read or belongs to another program.
    """
    given = read_graphs(graphs) if graphs else None
    found = find_runs(path)
    chosen = choose_run(found, run)
    kept, failures = _without_duplicates(chosen)
    limit = _memory_limit() if max_memory_bytes is None else max_memory_bytes
    hosts: list[Host] = []
    first_error: TraceAnalyzerError | None = None
    version = cache(lambda: tf_version(chosen) or (given.version if given else None))

    @cache
    def finder() -> GraphFinder | None:
        known = given or event_graphs(chosen, version())
        return None if known is None else GraphFinder(known)

    for index, file in enumerate(kept):
        if progress:
            progress(f"reading {file.path.name}")
        try:
            near_ns = next((ns for host in hosts if (ns := host.trace.origin_ns)), 0)
            hosts.append(_read(file, index, limit, near_ns, finder))
        except TraceAnalyzerError as error:
            _log.warning("%s", error)
            first_error = first_error or error
            failures.append(HostFailure(host=file.host, reason=str(error)))
    if not hosts:
        raise first_error or TraceFormatError(f"{chosen.name}: the run has no trace")
    if graphs:
        _refuse_unused(hosts)
    return Run(
        name=encodable(chosen.name),
        path_name=encodable(Path(path).resolve().name),
        hosts=tuple(hosts),
        failures=tuple(failures),
        other_runs=tuple(encodable(r.name) for r in found if r is not chosen),
        version=_recorded_version(hosts) or version(),
    )


def _recorded_version(hosts: Sequence[Host]) -> VersionSighting | None:
    versions = [h.capture_file.tensorflow_version for h in hosts if h.capture_file]
    version = next(filter(None, versions), None)
    return VersionSighting(value=printable(version), source="capture_file") if version else None


def _refuse_unused(hosts: Sequence[Host]) -> None:
    """Raise an error if a capture file replaces the given graphs or no graph matches the trace."""
    if any(host.capture_file for host in hosts):
        msg = "the trace has a capture file, so other graphs are not used; leave them out"
        raise GraphFileError(msg)
    known = [h.tables.joined.graphs for h in hosts if h.tables.joined and h.tables.joined.graphs]
    if not any(each.functions for each in known):
        notes = [note.message for each in known for note in each.notes]
        why = notes[0] if notes else "the trace contains no functions"
        msg = f"{why}; give a graph of the traced program"
        raise GraphFileError(msg)


def _memory_limit() -> int | None:
    """Return 75% of the machine's memory in bytes, or None if its size is unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 4
    except (AttributeError, OSError, ValueError):
        return None


def _without_duplicates(run: RunFiles) -> tuple[list[HostFile], list[HostFailure]]:
    kept: list[HostFile] = []
    failures: list[HostFailure] = []
    for file in run.hosts:
        twin = next((k for k in kept if _same_content(k.path, file.path)), None)
        if twin is None:
            kept.append(file)
        else:
            reason = f"its file is a copy of {twin.host}'s file, so only one is analyzed"
            failures.append(HostFailure(host=file.host, reason=reason, is_duplicate=True))
    return kept, failures


def _same_content(a: Path, b: Path) -> bool:
    try:
        return a.stat().st_size == b.stat().st_size > 0 and filecmp.cmp(a, b, shallow=False)
    except OSError:
        return False  # the reader reports the error


def _read(
    file: HostFile,
    index: int,
    max_memory_bytes: int | None,
    near_ns: int,
    graphs: Callable[[], GraphFinder | None],
) -> Host:
    trace, file = _trace_of(file, max_memory_bytes, near_ns)
    start_ps, end_ps = _extent(trace)
    beside = capture_beside(file, trace)
    others = graphs() if beside.capture_file is None else None
    tables = host_tables(file.host, index, trace, beside.capture_file, beside.session, others)
    if not beside.is_timed and holds_other_ops(beside.capture_file, tables):
        problem = "the ops in the file differ from those in the trace"
        beside = Beside(None, problem=problem, is_foreign=True)
        tables = host_tables(file.host, index, trace, graphs=graphs())
    timeline = host_timeline(tables)
    return Host(
        name=file.host,
        file=file,
        trace=replace(trace, planes=()),
        tables=with_exposed(tables, timeline),
        timeline=timeline,
        start_ps=start_ps,
        end_ps=end_ps,
        device_properties={p.name: p.own for p in device_planes(trace)},
        capture_file=beside.capture_file,
        session=beside.session,
        capture_file_problem=beside.problem,
        capture_file_is_foreign=beside.is_foreign,
        unnamed_events=trace.unnamed_events,
    )


def _trace_of(file: HostFile, max_memory_bytes: int | None, near_ns: int) -> tuple[Trace, HostFile]:
    """Read a trace, or return an empty one if it is unusable but there is a capture file."""
    if file.format == CAPTURE_FILE:
        return _NO_TRACE, file
    try:
        return read_host(file, max_bytes=max_memory_bytes, near_ns=near_ns), file
    except TraceTooLargeError:
        raise
    except TraceFormatError as error:
        if file.capture_file is None:
            raise
        _log.warning("%s", error)
        note = f"the trace could not be read, so times are unknown: {error}"
        return _NO_TRACE, replace(file, format=CAPTURE_FILE, note=note)


def _extent(trace: Trace) -> tuple[int, int]:
    """Return the start of the first event and the end of the last, ignoring derived lines."""
    starts, ends = [], []
    for plane in trace.planes:
        derived = mask(map(is_derived_line, plane.lines.name, plane.lines.id.tolist()))
        own = ~derived[plane.line_of]
        if own.any():
            starts.append(int(plane.start_ps[own].min()))
            ends.append(int(plane.end_ps[own].max()))
    return min(starts, default=0), max(ends, default=0)

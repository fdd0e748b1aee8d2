"""Builds a capture file from a captured script's records and graph dumps."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from traceanalyzer.capture_file import document
from traceanalyzer.capture_file.document import (
    CaptureFile,
    CaptureNote,
    Frame,
    Json,
    MachineObstacle,
    Scope,
    Session,
)
from traceanalyzer.capture_file.dumps import read_dumps
from traceanalyzer.capture_file.encoding import (
    NOT_AS_EXPECTED,
    DamagedDocumentError,
    check,
    known_origin,
    record,
)
from traceanalyzer.capture_file.files import bounded
from traceanalyzer.capture_file.function_records import UNKNOWN, Definition, Tracing
from traceanalyzer.capture_file.gpu_lines import (
    always_hides_gpus,
    always_requests_cpu,
    gpu_queries,
    only_prints,
)
from traceanalyzer.capture_file.graph_def import AttributePool
from traceanalyzer.capture_file.journal import Journal, read_journal
from traceanalyzer.capture_file.recorded_run import without_secrets
from traceanalyzer.capture_file.source_lines import SourceLines
from traceanalyzer.format import counted
from traceanalyzer.version import VERSION

_Record = TypeVar("_Record")


def build(  # noqa: PLR0913 - each keyword is of another source
    work: Path,
    host: str,
    *,
    log: Sequence[str] = (),
    machine_obstacles: Sequence[MachineObstacle] = (),
    gpus: Sequence[Mapping[str, Json]] = (),
    source: SourceLines | None = None,
    command: Sequence[str] | None = None,
) -> CaptureFile:
    """Build the capture file from a capture's working folder, with notes on missing records.

    The paths of its traces are absolute.

    Args:
        work: The capture's working folder, with `journal.jsonl` and `graphs/`.
        host: Name of the host, as in the trace's file name.
        source: Reads the program's source lines; None to leave them out.
        command: The capture's command line, as a list of words; None if there was none.
    """
    journal = read_journal(work / "journal.jsonl")
    pools = _Pools(journal)
    definitions: dict[str, Definition] = {}
    for each in pools.records(Definition, journal.many["function"]):
        definitions.setdefault(each.name, each)
    functions, dump_notes = read_dumps(work / "graphs", pools.attributes, definitions)
    eager = pools.all_of(pools.eager, [journal.last["eager"]] if "eager" in journal.last else [])
    errors = pools.all_of(pools.error, journal.many["error"])
    # Only the last choice of each kind counts. One without a value unset the variable.
    choices = {str(found.get("how")): found for found in journal.many["visibility"]}
    made = [choice for choice in choices.values() if choice.get("value") is not None]
    visibility = pools.all_of(pools.choice, made)
    kernels = journal.last.get("kernels", {}).get("kernels")
    frames = tuple(pools.frames)
    texts, statements, source_notes = source.add(frames) if source else (frames, (), ())
    environment, devices = _facts(journal, "environment"), _facts(journal, "devices")
    if environment is not None and isinstance(given := environment.get("variables"), dict):
        unset = {how for how, choice in choices.items() if choice.get("value") is None}
        environment["variables"] = {k: v for k, v in given.items() if k not in unset}
    questions = _gpu_questions(devices, sorted({f.file for f in frames if f.is_user}))
    if devices is not None and "gpu_questions" in devices:
        devices["gpu_questions"] = questions
    asking = {scope.frame for scope in pools.scopes if _names_cpu(scope)} - {UNKNOWN}
    chosen = {at for at in asking if frames[at].is_user and not always_requests_cpu(frames[at])}
    scopes = (
        replace(scope, origin=document.OF_MACHINE)
        if questions and scope.frame in chosen and _names_cpu(scope)
        else scope
        for scope in pools.scopes
    )
    capture_file = CaptureFile(
        tool=VERSION,
        host=host,
        complete="finished" in journal.last,
        command=None if command is None else without_secrets(command),
        environment=environment,
        devices=devices,
        gpus=tuple(gpus),
        log=tuple(log),
        machine_obstacles=tuple(machine_obstacles),
        sessions=tuple(
            session if Path(session.trace or "").is_file() else replace(session, trace=None)
            for session in pools.records(Session, journal.many["session"])
        ),
        errors=errors,
        visibility=visibility,
        session_configs=pools.records(document.SessionConfig, journal.many["session_config"]),
        frames=texts,
        statements=statements,
        scopes=tuple(scopes),
        chosen=frozenset(chosen),
        attributes=tuple(pools.attributes.sets),
        definitions=tuple(definitions.values()),
        functions=tuple(functions),
        tracings=pools.records(Tracing, journal.many["tracing"]),
        kernels=pools.records(
            document.RegisteredKernel, kernels if isinstance(kernels, list) else []
        ),
        notes=pools.records(CaptureNote, journal.many["note"]),
    )
    try:
        capture_file = _with_eager(capture_file, *eager)
    except DamagedDocumentError:
        pools.damaged += 1
        capture_file = _with_eager(replace(capture_file, definitions=()))
    damage = _notes(journal, pools.damaged)
    notes = (*capture_file.notes, *dump_notes, *damage, *source_notes)
    return bounded(replace(capture_file, notes=notes))


def _facts(journal: Journal, kind: str) -> dict[str, Json] | None:
    found = journal.last.get(kind)
    return None if found is None else {key: found[key] for key in found if key != "kind"}


def _gpu_questions(devices: Mapping[str, Json] | None, files: Iterable[str]) -> list[Json]:
    """Return the lines that query GPUs and do more than print the result, as `[file, line]`."""
    recorded = (devices or {}).get("gpu_questions")
    if not isinstance(recorded, list):
        return []
    unseen = [[file, line] for file in files for line in sorted(set(gpu_queries(file)))]
    found: list[Json] = []
    for each in (*unseen, *recorded):
        match each:
            case [str(file), int(line)] if not only_prints(file, line):
                found.append([file, line])
    return found


def _names_cpu(scope: Scope) -> bool:
    return scope.origin is None and "cpu" in scope.device.lower()


def _with_eager(capture_file: CaptureFile, eager: Mapping[str, Any] | None = None) -> CaptureFile:
    """Add the eager ops, replace origins that refer to missing records, and check all indices."""
    whole = replace(capture_file, **(eager or {}))
    sizes = len(whole.signatures), len(whole.resources)
    scopes = (replace(s, origin=known_origin(s.origin, *sizes)) for s in whole.scopes)
    whole = replace(whole, scopes=tuple(scopes))
    check(whole)
    return whole


def _notes(journal: Journal, damaged: int) -> Iterator[CaptureNote]:
    if "finished" not in journal.last:
        message = "the script ended before the recorder finished, so some records are missing"
        yield CaptureNote(id="recording_cut_short", severity="warning", message=message)
    if broken := journal.broken + damaged:
        message = f"{counted(broken, 'record')} of the capture could not be read"
        yield CaptureNote(id="records_damaged", severity="warning", message=message)


# --- Records with lines and scopes ----------------------------------------------------------------


class _Place(NamedTuple):
    """A line of code."""

    file: str
    line: int
    code: str
    is_user: int


class _Request(NamedTuple):
    """A `tf.device` scope, and the number of the line that opened it."""

    device: str
    frame: int
    origin: int | None = None


class _EagerOps(msgspec.Struct):
    """The eager ops of a journal."""

    signatures: list[dict[str, Any]]
    resources: list[dict[str, Any]]
    sequences: tuple[document.EagerSequence, ...]


class _Pools:
    """Reads the journal's records, and collects their frames, scopes, and attributes."""

    def __init__(self, journal: Journal) -> None:
        self.attributes = AttributePool()
        self.damaged = 0  #: records that were left out
        self.frames: dict[Frame, int] = {}
        self._indices(self._values(list[_Place], journal.many["frames"]))
        requests = self._values(list[_Request], journal.many["scopes"])
        lines = range(UNKNOWN, len(self.frames))
        self.scopes = [
            Scope(device=device, frame=frame, origin=origin)
            for device, frame, origin in takewhile(lambda each: each.frame in lines, requests)
        ]

    def _values(self, kind: type[list[_Record]], records: Iterable[Any]) -> list[_Record]:
        """Return the values of a pool, up to the first record that is damaged or missing."""
        found: list[_Record] = []
        for each in records:
            try:
                values = record(kind, each["values"])
            except NOT_AS_EXPECTED:
                values = []
            if not values or each.get("first") != len(found):
                self.damaged += 1
                break
            found += values
        return found

    def all_of(
        self, read: Callable[[dict[str, Any]], _Record], records: Iterable[dict[str, Any]]
    ) -> tuple[_Record, ...]:
        """Read records, skipping and counting damaged ones."""
        found = []
        for each in records:
            try:
                found.append(read(each))
            except NOT_AS_EXPECTED:
                self.damaged += 1
        return tuple(found)

    def records(self, kind: type[_Record], found: Iterable[Any]) -> tuple[_Record, ...]:
        """Read records that have the same fields in the journal and in the capture file."""
        return self.all_of(partial(record, kind), found)

    def eager(self, found: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
        """Return the fields of `CaptureFile` that an `eager` record describes."""
        ops = record(_EagerOps, found)
        return {
            "signatures": tuple(map(self._signature, ops.signatures)),
            "resources": tuple(record(document.Resource, _known(each)) for each in ops.resources),
            "sequences": ops.sequences,
        }

    def error(self, found: dict[str, Any]) -> document.CaughtError:
        raised = self._indices(record(list[_Place], found["raised"]))
        caught, lines = UNKNOWN, list[int]()
        if found["handler"] is not None:
            *place, lines = found["handler"]
            (caught,) = self._indices([record(_Place, [*place, 1])])
        fields = {"raised": raised, "handler": caught, "handler_lines": lines}
        return record(document.CaughtError, {**found, **fields})

    def choice(self, found: dict[str, Any]) -> document.VisibilityChoice:
        running = self._indices(record(list[_Place], found["frames"]))
        frames = list(self.frames)
        always = always_hides_gpus([frames[at] for at in running])
        at = running[0] if running else UNKNOWN
        return record(document.VisibilityChoice, {**found, "frame": at, "is_constant": always})

    def _indices(self, places: Iterable[_Place]) -> list[int]:
        frames = (
            Frame(file=place.file, line=place.line, code=place.code, is_user=bool(place.is_user))
            for place in places
        )
        return [self.frames.setdefault(frame, len(self.frames)) for frame in frames]

    def _signature(self, found: dict[str, Any]) -> document.Signature:
        return record(
            document.Signature,
            {
                **_known(found),
                "attributes": self.attributes.add(found["attributes"]),
                "inputs": [*map(_known, found["inputs"])],
                "outputs": [*map(_known, found["outputs"])],
            },
        )


def _known(found: dict[str, Any]) -> dict[str, Any]:
    """Return a record without its null values, so that the missing fields get their defaults."""
    return {key: value for key, value in found.items() if value is not None}

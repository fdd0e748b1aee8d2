"""Makes a capture file of what the recorder and TensorFlow left while the script ran."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.decode import DamagedDocumentError, Decoder
from traceanalyzer.capture_file.document import (
    OF_MACHINE,
    CaptureFile,
    CaughtError,
    EagerSequence,
    Levels,
    Note,
    RegisteredKernel,
    Resource,
    Session,
    SessionConfig,
    Signature,
    VisibilityChoice,
)
from traceanalyzer.capture_file.dumps import read_dumps
from traceanalyzer.capture_file.files import bounded
from traceanalyzer.capture_file.function_records import UNKNOWN, Definition
from traceanalyzer.capture_file.gpu_answers import (
    GpuAnswers,
    may_choose,
    may_choose_device,
    questions_without_tensorflow,
)
from traceanalyzer.capture_file.journal import Pools, facts, read_journal
from traceanalyzer.capture_file.recorded_run import without_secrets
from traceanalyzer.capture_file.visibility import manner_of
from traceanalyzer.format import counted, listed, printable
from traceanalyzer.trace.profile_options import profile_options_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias, TypeVar

    from traceanalyzer.capture_file.document import Frame, Json, Scope
    from traceanalyzer.capture_file.journal import Journal
    from traceanalyzer.capture_file.source_lines import SourceLines

    _Object: TypeAlias = dict[str, Json]
    _Record = TypeVar("_Record")

JOURNAL: Final = "journal.jsonl"
GRAPHS: Final = "graphs"

# They replace damaged records to which others point by number.
_NO_SESSION: Final[_Object] = {"method": "unknown", "start_ns": 0, "reason": "not recorded"}
_NO_SIGNATURE: Final[_Object] = {
    "op": "",
    "is_function": False,
    "scope": "",
    "scope_frame": -1,
    "frame": -1,
    "attributes": -1,
    "inputs": [],
    "outputs": [],
}
_NO_RESOURCE: Final[_Object] = {"signature": -1, "name": "", "dtype": "", "device": ""}


def build(  # noqa: PLR0913 - each keyword is of another source
    work: Path,
    host: str,
    *,
    log: Sequence[str] = (),
    gpus: Sequence[Mapping[str, Json]] = (),
    folder: Path | None = None,
    source: SourceLines | None = None,
    command: Sequence[str] | None = None,
) -> CaptureFile:
    """Make the capture file of a capture; its notes say what is missing or broken.

    Args:
        work: The capture's working folder, with `journal.jsonl` and `graphs/`.
        host: Name of the host, as in the trace's file name.
        folder: Where the capture file will lie; by default where the first session's trace does.
        source: What reads the text of the program's lines; None to leave it out.
        command: The words of the command line that made the capture; None where none did.
    """
    journal, pools = read_journal(work / JOURNAL), Pools()
    definitions = _first_of_each_name(
        d for record in journal.many["function"] if (d := pools.definition(record)) is not None
    )
    if folder is None:
        folder = _folder_of_first(journal.many["session"])
    functions, dump_notes = read_dumps(
        work / GRAPHS, pools.attributes, [d.name for d in definitions]
    )
    eager = pools.eager(journal.last.get("eager", {}))
    errors = [pools.error(record) for record in journal.many["error"]]
    choices = _last_of_each_way(journal)
    visibility = [pools.visibility(r) for r in choices if r.get("value") is not None]
    decoder = Decoder(
        strings=pools.strings,
        frames=pools.frames,
        scopes=pools.scopes,
        origins=pools.origins,
        attributes=[dict(attributes) for attributes in pools.attributes.sets],
        signatures=len(eager["signatures"]),
        resources=len(eager["resources"]),
        sessions=len(journal.many["session"]),
    )
    reader = _Reader(decoder)
    frames, statements, source_notes = (
        source.add(decoder.frames) if source else (decoder.frames, (), ())
    )
    files = sorted({frame.file for frame in decoder.frames if frame.is_user})
    devices, questions = _facts(journal, "devices"), []
    if devices is not None and isinstance(recorded := devices.get("gpu_questions"), list):
        questions = _gpu_questions(recorded, files)
        devices["gpu_questions"] = [list(question) for question in questions]
    chosen = _chosen(decoder.scopes, decoder.frames)
    answers = GpuAnswers(files if questions and chosen else (), questions)
    by_answer = frozenset(at for at in chosen if answers.reach(decoder.frames[at]))
    capture_file = CaptureFile(
        tool=version("traceanalyzer"),
        host=host,
        complete="finished" in journal.last,
        command=None if command is None else without_secrets(command),
        environment=_environment(journal, choices),
        devices=devices,
        gpus=tuple(facts(gpu) for gpu in gpus),
        log=tuple(log),
        sessions=tuple(
            _with_levels(session, folder)
            for session in reader.all_of(Session, journal.many["session"], _NO_SESSION)
        ),
        errors=reader.all_of(CaughtError, errors),
        visibility=reader.all_of(
            VisibilityChoice, (_with_manner(record, decoder.frames) for record in visibility)
        ),
        session_configs=reader.all_of(SessionConfig, journal.many["session_config"]),
        frames=frames,
        statements=statements,
        scopes=tuple(_of_machine(scope, by_answer) for scope in decoder.scopes),
        chosen=chosen,
        attributes=decoder.attributes,
        definitions=definitions,
        functions=tuple(functions),
        signatures=reader.all_of(Signature, eager["signatures"], _NO_SIGNATURE),
        resources=reader.all_of(Resource, eager["resources"], _NO_RESOURCE),
        kernels=reader.all_of(RegisteredKernel, _kernels(journal)),
        sequences=reader.all_of(EagerSequence, eager["sequences"]),
        notes=reader.all_of(Note, journal.many["note"]),
    )
    damage = _notes(journal, pools.damaged + reader.damaged)
    notes = (*capture_file.notes, *dump_notes, *damage, *source_notes)
    return bounded(replace(capture_file, notes=notes))


class _Reader:
    """Decodes records of the journal and counts those that are damaged."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self.damaged = 0

    def all_of(
        self, kind: type[_Record], records: Iterable[Json], stand_in: _Object | None = None
    ) -> tuple[_Record, ...]:
        """Decode records; a damaged one is left out, or replaced so that numbers stay right."""
        found = []
        for record in records:
            try:
                found.append(self._decoder.record(kind, record))
            except DamagedDocumentError:
                self.damaged += 1
                if stand_in is not None:
                    found.append(self._decoder.record(kind, stand_in))
        return tuple(found)


def _facts(journal: Journal, kind: str) -> _Object | None:
    return facts(journal.last[kind]) if kind in journal.last else None


def _last_of_each_way(journal: Journal) -> Iterable[_Object]:
    """Return the last record of each way to choose visible GPUs: it decides.

    That of a variable which the program unset has no value.
    """
    return {str(record.get("how")): record for record in journal.many["visibility"]}.values()


def _environment(journal: Journal, choices: Iterable[_Object]) -> _Object | None:
    """Return what the program ran with, without variables that it unset before they counted."""
    found = _facts(journal, "environment")
    given = None if found is None else found.get("variables")
    if found is None or not isinstance(given, dict):
        return found
    unset = {record.get("how") for record in choices if record.get("value") is None}
    return {**found, "variables": {k: v for k, v in given.items() if k not in unset}}


def _with_manner(record: _Object, frames: Sequence[Frame]) -> _Object:
    numbers = record["frames"] if isinstance(record["frames"], list) else []
    running = [frames[at] for at in numbers if isinstance(at, int) and at != UNKNOWN]
    return {**record, "manner": manner_of(running, str(record.get("value")))}


def _gpu_questions(recorded: list[Json], files: Iterable[str]) -> list[tuple[str, int]]:
    """Return the questions which GPUs there are whose answer may matter."""
    found = [
        (file, line)
        for file in files
        for line in sorted(set(questions_without_tensorflow(file)))
        if may_choose(file, line, is_script=False)
    ]
    for each in recorded:
        match each:
            case [[str(file), int(line)], bool(is_script)]:
                if may_choose(file, line, is_script=is_script):
                    found.append((file, line))
    return found


def _chosen(scopes: Sequence[Scope], frames: Sequence[Frame]) -> frozenset[int]:
    asking = {scope.frame for scope in scopes if _names_cpu(scope)}
    lines = sorted(at for at in asking if at != UNKNOWN and frames[at].is_user)
    return frozenset(at for at in lines if may_choose_device(frames[at]))


def _of_machine(scope: Scope, by_answer: Collection[int]) -> Scope:
    """Return a scope as one for the first device there is, where its line chose that."""
    is_chosen = scope.frame in by_answer and _names_cpu(scope)
    return replace(scope, origin=OF_MACHINE) if is_chosen else scope


def _names_cpu(scope: Scope) -> bool:
    return scope.origin is None and "cpu" in scope.device.lower()


def _kernels(journal: Journal) -> list[Json]:
    found = journal.last.get("kernels", {}).get("kernels")
    return found if isinstance(found, list) else []


def _first_of_each_name(definitions: Iterable[Definition]) -> tuple[Definition, ...]:
    found: dict[str, Definition] = {}
    for definition in definitions:
        found.setdefault(definition.name, definition)
    return tuple(found.values())


def _with_levels(session: Session, folder: Path | None) -> Session:
    """Name the trace relative to the capture file; the levels it states were in force.

    TensorFlow states them from 2.19 on, and obeyed what was requested before.
    """
    if session.trace is None or folder is None or not Path(session.trace).is_file():
        return replace(session, trace=None, effective=None)
    stated = profile_options_in(Path(session.trace))
    return replace(
        session,
        trace=os.path.relpath(session.trace, folder),
        effective=session.requested if stated is None else Levels(**asdict(stated)),
    )


def _folder_of_first(sessions: Iterable[_Object]) -> Path | None:
    traces = (s.get("trace") for s in sessions)
    return next((Path(trace).parent for trace in traces if isinstance(trace, str)), None)


def _notes(journal: Journal, damaged: int) -> Iterator[Note]:
    if "finished" not in journal.last:
        message = (
            "the script ended before the recorder could: what it had written until then is kept"
        )
        yield Note(id="recording_cut_short", severity="warning", message=message)
    if broken := journal.broken + damaged:
        message = f"{counted(broken, 'record')} of the recorder cannot be read"
        yield Note(id="records_damaged", severity="warning", message=message)
    if journal.unknown:
        kinds = listed([printable(kind) for kind in sorted(journal.unknown)])
        message = f"the recorder wrote records of kinds that are not known here: {kinds}"
        yield Note(id="records_unknown", severity="info", message=message)

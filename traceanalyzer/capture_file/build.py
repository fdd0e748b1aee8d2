"""Builds a capture file from the records and dumps that the captured script left."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.capture_file.document import (
    OF_MACHINE,
    CaptureFile,
    Note,
    RegisteredKernel,
    Session,
    SessionConfig,
    VisibilityChoice,
)
from traceanalyzer.capture_file.dumps import read_dumps
from traceanalyzer.capture_file.encoding import DamagedDocumentError, check, known_origin, record
from traceanalyzer.capture_file.files import bounded
from traceanalyzer.capture_file.function_records import UNKNOWN
from traceanalyzer.capture_file.gpu_source import (
    manner_of,
    may_choose,
    may_choose_device,
    questions_without_tensorflow,
)
from traceanalyzer.capture_file.journal import read_journal
from traceanalyzer.capture_file.pools import EagerRecords, Pools, facts
from traceanalyzer.capture_file.recorded_run import without_secrets
from traceanalyzer.format import counted, listed, printable
from traceanalyzer.trace.profile_options import profile_options_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from traceanalyzer.capture_file.document import Frame, Json, Scope
    from traceanalyzer.capture_file.function_records import Definition
    from traceanalyzer.capture_file.journal import Journal
    from traceanalyzer.capture_file.source_lines import SourceLines

    _Object: TypeAlias = dict[str, Json]

JOURNAL: Final = "journal.jsonl"
GRAPHS: Final = "graphs"


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
    """Build the capture file of a capture; its notes say what is missing or broken.

    Args:
        work: The capture's working folder, with `journal.jsonl` and `graphs/`.
        host: Name of the host, as in the trace's file name.
        folder: Folder of the capture file; defaults to that of the first session's trace.
        source: Reader of the program's source lines; None to leave them out.
        command: The words of the command line that made the capture; None if there was none.
    """
    journal, pools = read_journal(work / JOURNAL), Pools()
    recorded = journal.many["session"]
    if folder is None:
        traces = (session.get("trace") for session in recorded)
        folder = next((Path(trace).parent for trace in traces if isinstance(trace, str)), None)
    definitions: dict[str, Definition] = {}
    for each in pools.all_of(pools.definition, journal.many["function"]):
        definitions.setdefault(each.name, each)
    functions, dump_notes = read_dumps(work / GRAPHS, pools.attributes, definitions)
    eager = pools.all_of(pools.eager, [journal.last["eager"]] if "eager" in journal.last else [])
    errors = pools.all_of(pools.error, journal.many["error"])
    choices = _last_of_each_way(journal)
    visibility = pools.all_of(
        partial(_choice, pools), (each for each in choices if each.get("value") is not None)
    )
    sessions = pools.records(Session, recorded)
    kernels: Any = journal.last.get("kernels", {}).get("kernels")
    frames = pools.frames
    texts, statements, source_notes = source.add(frames) if source else (frames, (), ())
    devices = _facts(journal, "devices")
    questions = _gpu_questions(devices, sorted({f.file for f in frames if f.is_user}))
    if devices is not None and "gpu_questions" in devices:
        devices["gpu_questions"] = [list(question) for question in questions]
    chosen = _chosen(pools.scopes, frames)
    capture_file = CaptureFile(
        tool=version("traceanalyzer"),
        host=host,
        complete="finished" in journal.last,
        command=None if command is None else without_secrets(command),
        environment=_environment(journal, choices),
        devices=devices,
        gpus=tuple(facts(gpu) for gpu in gpus),
        log=tuple(log),
        sessions=tuple(_with_levels(session, folder) for session in sessions),
        errors=errors,
        visibility=visibility,
        session_configs=pools.records(SessionConfig, journal.many["session_config"]),
        frames=texts,
        statements=statements,
        scopes=tuple(
            replace(scope, origin=OF_MACHINE)
            if questions and scope.frame in chosen and _names_cpu(scope)
            else scope
            for scope in pools.scopes
        ),
        chosen=chosen,
        attributes=tuple(pools.attributes.sets),
        definitions=tuple(definitions.values()),
        functions=tuple(functions),
        kernels=pools.records(RegisteredKernel, kernels if isinstance(kernels, list) else []),
        notes=pools.records(Note, journal.many["note"]),
    )
    try:
        capture_file = _with_eager(capture_file, *eager)
    except DamagedDocumentError:
        pools.damaged += 1
        capture_file = _with_eager(capture_file)
    damage = _notes(journal, pools.damaged)
    notes = (*capture_file.notes, *dump_notes, *damage, *source_notes)
    return bounded(replace(capture_file, notes=notes))


def _facts(journal: Journal, kind: str) -> _Object | None:
    found = {key: each for key, each in journal.last.get(kind, {}).items() if key != "kind"}
    return facts(found) if kind in journal.last else None


def _last_of_each_way(journal: Journal) -> Iterable[_Object]:
    """Return the last record of each way to choose visible GPUs: the last one counts.

    If the program unset the variable, the record has no value.
    """
    return {str(found.get("how")): found for found in journal.many["visibility"]}.values()


def _choice(pools: Pools, found: _Object) -> VisibilityChoice:
    running = pools.indices(found["frames"])
    frames = pools.frames
    manner = manner_of([frames[at] for at in running], str(found["value"]))
    at = running[0] if running else UNKNOWN
    return record(VisibilityChoice, {**found, "frame": at, "manner": manner})


def _environment(journal: Journal, choices: Iterable[_Object]) -> _Object | None:
    """Return the program's environment, without variables that it unset before they counted."""
    found = _facts(journal, "environment")
    given = None if found is None else found.get("variables")
    if found is None or not isinstance(given, dict):
        return found
    unset = {choice.get("how") for choice in choices if choice.get("value") is None}
    return {**found, "variables": {k: v for k, v in given.items() if k not in unset}}


def _gpu_questions(devices: _Object | None, files: Iterable[str]) -> list[tuple[str, int]]:
    """Return the GPU queries whose answer may affect the program."""
    recorded = (devices or {}).get("gpu_questions")
    if not isinstance(recorded, list):
        return []
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
    """Return the lines that enter a CPU scope but may request another device elsewhere."""
    asking = {scope.frame for scope in scopes if _names_cpu(scope)} - {UNKNOWN}
    return frozenset(at for at in asking if frames[at].is_user and may_choose_device(frames[at]))


def _names_cpu(scope: Scope) -> bool:
    return scope.origin is None and "cpu" in scope.device.lower()


def _with_eager(capture_file: CaptureFile, eager: EagerRecords = EagerRecords()) -> CaptureFile:  # noqa: B008 - immutable
    """Add the eager ops; a scope's device may be that of a signature or resource."""
    sizes = len(eager.signatures), len(eager.resources)
    scopes = (replace(s, origin=known_origin(s.origin, *sizes)) for s in capture_file.scopes)
    whole = replace(capture_file, **eager._asdict(), scopes=tuple(scopes))
    check(whole)
    return whole


def _with_levels(session: Session, folder: Path | None) -> Session:
    """Name the trace relative to the capture file, and set the levels in force.

    TensorFlow records the levels from 2.19 on; older versions use the requested ones.
    """
    if session.trace is None or folder is None or not Path(session.trace).is_file():
        return replace(session, trace=None, effective=None)
    stated = profile_options_in(Path(session.trace))
    return replace(
        session, trace=os.path.relpath(session.trace, folder), effective=stated or session.requested
    )


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

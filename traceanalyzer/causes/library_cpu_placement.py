"""A library requests the CPU."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from traceanalyzer.capture_file.document import Frame, file_name, library_of, lines_text, same_place
from traceanalyzer.causes._cause import BlockedOps, Blocker, CauseMatch, CpuOp, FindingText
from traceanalyzer.causes.knowledge.advice import read
from traceanalyzer.causes.knowledge.finding_text import (
    capitalized,
    is_of_strategy,
    is_requested_for_python,
    observed,
    types_at,
)
from traceanalyzer.findings import Finding
from traceanalyzer.format import listed, series
from traceanalyzer.model import Fix, Harm
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.devices import device_text
from traceanalyzer.placement.inference import name_scope
from traceanalyzer.placement.scopes import habit_of
from traceanalyzer.run import Run

needs: Final = "gpu"

_MOST_NAMES: Final = 3  # layers named in a title


@dataclass(frozen=True, slots=True, kw_only=True)
class _LibraryCode:
    """Library code that opens a scope for the CPU; see `data/library_code.toml` for the fields."""

    id: str
    title: str
    does: str
    harm: Harm
    why: str
    source: str
    files: tuple[str, ...] = ()
    fixes: tuple[Fix, ...] = ()


LIBRARY_CODE: Final = read("library_code", _LibraryCode)
_BY_ID: Final = {code.id: code for code in LIBRARY_CODE}
_SUMMARY: Final = _BY_ID["summary"]
_COPIED, _IMPORTED = _BY_ID["copied_graph"], _BY_ID["imported_graph"]
_IMPORTS: Final = "import_graph_def"
#: Code that only requests a device: avoiding it does not help an op without a GPU kernel.
ONLY_REQUESTS: Final = frozenset({_COPIED.id, _IMPORTED.id, "optimizer_slot", "other"})


def check(run: Run) -> Iterator[Finding]:
    """Yield findings about eager summaries, which even a trace without a capture shows."""
    for host in run.hosts:
        ops = host.tables.ops
        found = ops[(ops["placement_source"] == "summary") & (ops["placement"] == "cpu")]
        types = series(sorted(set(found["type"].astype(str))))
        why = (
            f"TensorFlow requests the CPU when it {_SUMMARY.does}, so an `Identity` first copies "
            "the value there."
        )
        text = f"a WriteSummary immediately follows each recorded {types}"
        if len(found):
            yield Finding(
                cause="library_cpu_placement",
                sub_reason=_SUMMARY.id,
                scope=f"{host.name} eager summary",
                certainty="possible",
                harm=_SUMMARY.harm,
                title=_SUMMARY.title.format(ops=types),
                why=f"{why} {_SUMMARY.why}",
                op_ids=tuple(found["op_id"]),
                evidence=(observed("op_type", text),),
                fixes=_SUMMARY.fixes,
            )


def match(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    frame = blocker.scope_frame
    if blocker.kind is not BlockerKind.REQUEST or blocker.link != "own" or blocker.copied_from:
        return None
    if frame is None:
        return _by_name(cpu_op, blocker)
    if frame.is_user or is_of_strategy(blocker) or is_requested_for_python(blocker):
        return None
    code, library = _library_code(frame, blocker), library_of(frame)
    device = device_text(blocker.scope or blocker.requested_device)
    text = f'{library} enters tf.device("{device}") here: it {code.does}'
    leads = code is _SUMMARY
    return CauseMatch(
        scope=f"{library} {code.id}{'' if leads else f' {same_place(frame)}'}",
        evidence=(observed("requested_device", text, line=frame),),
        # It requests the device of another variable, which differs on another machine.
        certainty="likely" if code.id == "optimizer_slot" else "certain",
        sub_reason=code.id,
        leads=leads,
    )


def _by_name(cpu_op: CpuOp, blocker: Blocker) -> CauseMatch | None:
    """Match a request by the name of its op, because its line was not recorded."""
    code = _code_of_name(blocker.name)
    if code is None:
        return None
    text, where = f"names like {blocker.name} are typical of code that {code.does}", ""
    if not cpu_op.explanation.inferred_from:
        text = f"{device_text(blocker.requested_device)} is requested for {blocker.name}; {text}"
        where = f"node {blocker.name}"
    return CauseMatch(
        scope=f"{code.id} {name_scope(cpu_op.name)}",
        evidence=(observed("requested_device", text, where),),
        certainty="likely",
        sub_reason=code.id,
    )


def describe(ops: BlockedOps) -> FindingText:
    scoped = [each for each in ops.blockers if each.scope_frame is not None]
    frames = [each.scope_frame for each in scoped if each.scope_frame is not None]
    by_name = None if frames else _code_of_name(ops.blocker.name)
    code = _library_code(frames[0], scoped[0]) if by_name is None else by_name
    library = library_of(frames[0]) if frames else "a library"
    # A file of Keras is named after its layer.
    files = dict.fromkeys(file_name(frame).removesuffix(".py") for frame in frames)
    part = " or ".join(file.title().replace("_", "") for file in files)
    scopes = (name_scope(cpu_op.name) for cpu_op in ops.ops)
    # The names that the model gives the layers; one layer may be part of another.
    names = list(dict.fromkeys(scope.rpartition("/")[2] for scope in scopes if scope))
    if not part:
        part = listed(names)
    elif 0 < len(names) <= _MOST_NAMES:
        part = f"{part} ({listed(names)})"
    functions = series([f"`{name}`" for name in dict.fromkeys(frame.code for frame in frames)])
    where = f"{lines_text(frames)}, in {functions}" if frames else "inferred from op names"
    known = f" The source code of {code.source} shows this." if code.files else ""
    title = code.title.format(library=library, part=part, ops=types_at(ops.ops))
    why = (
        f"{capitalized(library)} requests the CPU in its own scope ({where}): it {code.does}. "
        f"TensorFlow honors the request. {code.why}{known}"
    )
    return FindingText(title=capitalized(title), why=why, harm=code.harm, fixes=code.fixes)


def _library_code(frame: Frame, blocker: Blocker) -> _LibraryCode:
    path = f"/{frame.file}".replace("\\", "/")
    known = (code for code in LIBRARY_CODE if any(f"/{part}" in path for part in code.files))
    code = next(known, LIBRARY_CODE[-1])
    line = None if blocker.frame is None else blocker.frame.text
    return _IMPORTED if code is _COPIED and line is not None and _IMPORTS in line else code


def _code_of_name(name: str) -> _LibraryCode | None:
    habit = habit_of(name, None)
    return next((each for each in LIBRARY_CODE if each.id == habit), None)

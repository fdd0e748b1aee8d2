"""Changes for ops on the CPU without a known cause, and for GPUs that TensorFlow does not see."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from traceanalyzer.capture_file.visibility import obstacles
from traceanalyzer.causes.knowledge.candidates import Candidates
from traceanalyzer.causes.no_gpu_visible import is_doubtful, obstacle_fix
from traceanalyzer.changes.edits import unhiding_edit
from traceanalyzer.changes.saving import Savings, at_most
from traceanalyzer.changes.source import Sources
from traceanalyzer.cpu_ops import CpuOp
from traceanalyzer.data_files import toml
from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.findings import finding_id
from traceanalyzer.format import counted, series
from traceanalyzer.model.changes import Candidate, Change, Saving
from traceanalyzer.placement.inference import UPDATE, name_scope
from traceanalyzer.step_parts import mean_step
from traceanalyzer.units import PS_PER_US

_CHECKS: Final = toml("changes/data/checks.toml")
_BY_CAUSE: Final = {entry["cause"]: entry for entry in _CHECKS["check"]}
_CAUSE: Final = "no_gpu_visible"
_MOST_STEPS: Final = 2  # of a title; the detail names all obstacles
_RESOURCE: Final = "resource_on_cpu"
_FOLLOWS: Final = "follows_neighbour"
_MOST_CANDIDATES: Final = 4
_MOST_PARTS: Final = 20
_MOST_SCOPES: Final = 3  # named in a detail
_RECORD: Final = "traceanalyzer capture script.py"
_IF_ALL_MOVE: Final = "if all of these ops move to the GPU"
_UNKNOWN_GAIN: Final = "the trace does not show what a GPU would save"
_AT_MOST_THE_OPS: Final = "the ops take this long; on a GPU, they also take time"
_OPTIMIZER: Final = re.compile(r"^(?:\w+/)?(?P<optimizer>[A-Z][A-Za-z]+)(?:_\d+)?/")


class _Part(NamedTuple):
    """A part of the program: the ops of one name scope or of one line."""

    host: str
    function: str
    scope: str
    line: int


_OTHERS: Final = _Part("", "", "", 0)


def find_cause_changes(diagnosis: Diagnosis, savings: Savings) -> list[Change]:
    """Return one change for each part of the program whose ops have no known cause."""
    if not diagnosis.run.gpu_used:
        return []
    ids = diagnosis.unexplained["op_id"].astype(str)
    ops = [diagnosis.cpu_ops[op_id] for op_id in ids if op_id in diagnosis.cpu_ops]
    candidates = Candidates(diagnosis.run)
    possible = {op.op_id: candidates.of(op) for op in ops}
    return [
        _find_cause(part, members, _candidates(members, possible), savings)
        for part, members in _parts(ops).items()
        if not savings.is_rare([op.op_id for op in members])
    ]


def _find_cause(
    part: _Part, ops: Sequence[CpuOp], candidates: tuple[Candidate, ...], savings: Savings
) -> Change:
    op_ids = [op.op_id for op in ops]
    saving = savings.of_placement(op_ids, op_ids)
    if saving.kind == "upper_bound":
        saving = replace(saving, note=_IF_ALL_MOVE)
    types = list(dict.fromkeys(op.explanation.type or op.type for op in ops))
    scopes = list(dict.fromkeys(filter(None, (_part(op).scope for op in ops))))
    where = f" in {series(scopes[:_MOST_SCOPES])}" if scopes else ""
    what = types[0] if len(types) == 1 else f"{len(ops)} ops"
    of = f" of `{part.scope}`" if part.scope else ""
    subject = f"{what}{of} {'is' if len(ops) == 1 else 'are'}"
    if candidates and candidates[0].cause == _RESOURCE:
        subject = f"the variable{of or f' used by {what}'} is"
    return Change(
        id=finding_id("find_cause", f"{part.function}\0{part.scope}"),
        kind="find_cause",
        title=f"Find out why {subject} on the CPU",
        detail=f"{counted(len(ops), 'op')}{where}: {series(types)}",
        place=next(((op.file, op.line) for op in ops if op.file and op.line is not None), None),
        instead=candidates[0].check if candidates else _RECORD,
        why="The trace does not show why these ops are on the CPU.",
        saving=saving,
        certainty="possible",
        effort="command",
        op_ids=tuple(op_ids),
        candidates=candidates,
    )


def _parts(ops: Sequence[CpuOp]) -> dict[_Part, list[CpuOp]]:
    """Group ops by name scope or line.

    The parts that take longest stay separate; all others are merged into one.
    """
    every: dict[_Part, list[CpuOp]] = defaultdict(list)
    for op in ops:
        every[_part(op)].append(op)
    parts: dict[_Part, list[CpuOp]] = defaultdict(list)
    for part in sorted(every, key=lambda part: part.scope.count("/")):
        outer = next((each for each in _around(part) if each in parts), part)
        parts[outer] += every[part]
    ordered = sorted(parts, key=lambda part: -sum(op.host_self_ps for op in parts[part]))
    kept = {part: parts[part] for part in ordered[:_MOST_PARTS]}
    others = [op for part in ordered[_MOST_PARTS:] for op in parts[part]]
    return kept | ({_OTHERS: others} if others else {})


def _part(op: CpuOp) -> _Part:
    if op.is_eager or not op.function:
        return _Part(op.host, op.file or "", "", op.line or 0)
    update = UPDATE.search(op.name) or _OPTIMIZER.match(op.name)
    scope = update[0].rstrip("/") if update else name_scope(op.name)
    return _Part(op.host, op.function, scope, 0)


def _around(part: _Part) -> Iterator[_Part]:
    """Yield the scopes around a part, outermost first, without the scope of the whole model."""
    names = part.scope.split("/")
    for depth in range(2, len(names)):
        yield part._replace(scope="/".join(names[:depth]))


def _candidates(
    ops: Sequence[CpuOp], possible: Mapping[str, Sequence[str]]
) -> tuple[Candidate, ...]:
    """Return the possible causes of ops, those that explain the most ops first."""
    direct: dict[str, list[CpuOp]] = defaultdict(list)
    rank: dict[str, int] = defaultdict(int)
    for op in ops:
        for position, cause in enumerate(possible[op.op_id]):
            direct[cause].append(op)
            rank[cause] += position
    followers = direct.pop(_FOLLOWS, [])
    found = []
    for cause in filter(_BY_CAUSE.__contains__, direct):
        ids, kind = {op.op_id for op in direct[cause]}, direct[cause][0].explanation.type
        texts = {name: text.format(op=kind) for name, text in _BY_CAUSE[cause].items()}
        following = sum(op.op_id not in ids for op in (ops if cause == _RESOURCE else followers))
        order = (cause != _RESOURCE, -len(ids) - following, rank[cause] / len(ids))
        candidate = Candidate(explains_directly=len(ids), explains_following=following, **texts)
        found.append((order, candidate))
    found.sort(key=lambda each: each[0])
    return tuple(candidate for _, candidate in found[:_MOST_CANDIDATES])


def gpu_change(diagnosis: Diagnosis, sources: Sources) -> Change | None:
    """Return the change that makes a GPU visible; None if the run used one."""
    predicted = () if diagnosis.on_a_gpu is None else diagnosis.on_a_gpu.findings
    findings = [f for f in (*diagnosis.findings, *predicted) if f.cause == _CAUSE]
    if not findings:
        return None
    capture_files = [capture_file for _, capture_file in diagnosis.run.captured]
    every = list(dict.fromkeys(o for each in capture_files for o in obstacles(each)))
    every.sort(key=is_doubtful)  # certain ones first
    lines = [(each.frame, is_doubtful(each)) for each in every if each.frame is not None]
    certain = [frame for frame, is_in_doubt in lines if not is_in_doubt]
    unhiding = (unhiding_edit(sources, frame.file, frame.line) for frame in certain)
    edits = tuple(edit for edit in unhiding if edit is not None)
    first, fixes = findings[0], [fix for finding in findings for fix in finding.fixes]
    fixes = fixes if every else fixes[:1]  # the candidates name the others, each with a check
    hiding, edited = {frame.text for frame, _ in lines}, {edit.old[0].strip() for edit in edits}
    advice = [
        fix.text if fix.code in hiding else fix.code or ("" if not every else fix.text)
        for fix in fixes
        if fix.code not in edited
    ]
    named = [each for each in every if not is_doubtful(each)] or every[:1]
    steps = [*dict.fromkeys(filter(None, (obstacle_fix(each).title for each in named)))]
    if len(steps) > 1:  # without remarks, which also follow a semicolon
        steps = [step.partition(";")[0] for step in steps]
        steps[1:] = [f"{step[:1].lower()}{step[1:]}" for step in steps[1:]]
    has_gpu = any(host.tables.facts.accelerators for host in diagnosis.run.hosts)
    # A capture shows whether the others apply. The last cause is that there is no GPU.
    possible = _CHECKS["no_gpu"][: 1 if capture_files else -1 if has_gpu else None]
    ids = first.op_ids
    return Change(
        id=first.id,
        kind="gpu",
        title="; ".join(steps[:_MOST_STEPS]) or "Find out why TensorFlow sees no GPU",
        detail="; ".join(each.text.rstrip(".") for each in every)
        or f"{counted(len(possible), 'possible cause')}, each with a check",
        place=(lines[0][0].file, lines[0][0].line) if lines else None,
        edits=edits,
        instead="\n".join(dict.fromkeys(filter(None, advice))),
        why=first.why,
        saving=_of_a_gpu(diagnosis),
        certainty=first.certainty,
        effort="one line" if edits and len(every) == 1 else "command",
        finding_ids=tuple(finding.id for finding in findings),
        op_ids=ids,
        candidates=tuple(
            Candidate(cause=_CAUSE, explains_directly=len(ids), explains_following=0, **texts)
            for texts in ([] if every else possible)
        ),
    )


def _of_a_gpu(diagnosis: Diagnosis) -> Saving:
    """Return what a GPU saves at most: the part of a step that ops take which it could compute."""
    step, stay = mean_step(diagnosis.run), diagnosis.stay_on_cpu
    if not step.has_steps or not step.us:
        return Saving(kind="none", note=_UNKNOWN_GAIN)
    most_us = step.part_us("cpu_op", "unplaced") + step.cpu_op_doubt_us[1]
    left_us = max(0.0, most_us - step.ops_us(stay))
    if not left_us:
        return Saving(kind="none", note=_UNKNOWN_GAIN)
    return at_most(left_us * PS_PER_US, step.us * PS_PER_US, _AT_MOST_THE_OPS)

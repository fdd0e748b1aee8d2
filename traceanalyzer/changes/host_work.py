"""Changes for ops that belong on the CPU, but that steps wait for: do their work elsewhere.

No change of devices moves these ops. What helps is to do their work before or after the step.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from traceanalyzer.causes.knowledge.advice import HOST_WORK, Advice, host_work
from traceanalyzer.changes.saving import LEAST, at_most
from traceanalyzer.cpu_ops import CpuOp
from traceanalyzer.data_files import toml
from traceanalyzer.diagnosis import Diagnosis, rare_ops
from traceanalyzer.findings import CERTAINTIES, Finding, finding_id
from traceanalyzer.format import counted, series
from traceanalyzer.model.changes import Change
from traceanalyzer.step_parts import mean_step
from traceanalyzer.units import PS_PER_US

_TEXTS: Final = toml("changes/data/host_work.toml")
_BEFORE_A_STEP: Final = frozenset({"decode", "hash_table", "strings"})
_MAP_FN: Final = "/map/while/"  # in the names of ops that `tf.map_fn` runs


class _MadeAt(NamedTuple):
    """The ops of one line, or of one function if their lines are unknown."""

    file: str
    line: int
    function: str


def host_work_changes(diagnosis: Diagnosis) -> list[Change]:
    """Return a change for each line whose by-design CPU ops take a noticeable part of a step."""
    step = mean_step(diagnosis.run)
    if not step.has_steps or not step.us:
        return []
    there = diagnosis.on_a_gpu
    cpu_ops = {**diagnosis.cpu_ops, **({} if there is None else there.analysis.cpu_ops)}
    findings = (*diagnosis.findings, *(() if there is None else there.findings))
    by_design = {o: f for f in findings if f.harm == "by_design" for o in f.op_ids}
    ops = [cpu_ops[o] for o in by_design.keys() & cpu_ops.keys() - rare_ops(diagnosis.run).keys()]
    took_us = {op.op_id: step.ops_us([op.op_id]) for op in ops}
    found = []
    for at, members in _parts(ops, took_us):
        us = sum(took_us[op.op_id] for op in members)
        if us >= LEAST * step.us and _title(members[0], by_design):
            found.append(_change(at, members, by_design, us * PS_PER_US, step.us * PS_PER_US))
    return found


def _title(op: CpuOp, by_design: Mapping[str, Finding]) -> str:
    """Return what to do about the op that takes longest, "" if there is nothing to advise."""
    finding = by_design[op.op_id]
    work = _work(op, finding)
    return work.title if work else next((fix.title for fix in finding.fixes if fix.title), "")


def _work(op: CpuOp, finding: Finding) -> Advice | None:
    """Return the work that an op does, by its type or else by the fix of its finding."""
    of_finding = (work for work in HOST_WORK.values() if work.fix in finding.fixes)
    return host_work(op.explanation.type or op.type) or next(of_finding, None)


def _parts(
    ops: Sequence[CpuOp], took_us: Mapping[str, float]
) -> Iterator[tuple[_MadeAt, list[CpuOp]]]:
    """Yield the ops of each line or function, those that take longest first."""
    parts: dict[_MadeAt, list[CpuOp]] = defaultdict(list)
    for op in sorted(ops, key=lambda op: (-took_us[op.op_id], op.op_id)):
        is_known = op.file is not None and op.line is not None
        at = _MadeAt(op.file or "", op.line or 0, "" if is_known else op.function or op.type)
        parts[at].append(op)
    yield from parts.items()


def _change(
    at: _MadeAt,
    ops: Sequence[CpuOp],
    by_design: Mapping[str, Finding],
    took_ps: float,
    step_ps: float,
) -> Change:
    """Return the change for the ops of a line. The op that takes longest decides the advice."""
    findings = list({f.id: f for f in (by_design[op.op_id] for op in ops)}.values())
    types, lead = list(dict.fromkeys(op.explanation.type or op.type for op in ops)), findings[0]
    work = _work(ops[0], lead)
    return Change(
        id=finding_id("host_work", f"{lead.id}\0{at.function}"),
        kind="edit",
        title=_title(ops[0], by_design),
        detail=f"{counted(len(ops), 'op')} without a choice of device: {series(types)}",
        place=(at.file, at.line) if at.file else None,
        instead="\n".join(_advice(work, ops, lead)),
        why=f"{_TEXTS['why']} {'' if work is None else work.why}".strip(),
        saving=at_most(took_ps, step_ps, _TEXTS["note"]),
        certainty=max((f.certainty for f in findings), key=CERTAINTIES.index),
        effort="restructure",
        finding_ids=tuple(f.id for f in findings),
        op_ids=tuple(op.op_id for op in ops),
        is_by_placement=False,
    )


def _advice(work: Advice | None, ops: Sequence[CpuOp], lead: Finding) -> Iterator[str]:
    """Yield sentences on what to do."""
    if work is None or work.id not in _BEFORE_A_STEP:
        yield from (fix.text for fix in lead.fixes[:1] if fix.text)
        return
    yield _TEXTS[work.id]
    yield _TEXTS["before"]
    if any(_MAP_FN in f"/{op.name}/" or _MAP_FN in f"/{op.node[1]}/" for op in ops):
        yield _TEXTS["map_fn"]

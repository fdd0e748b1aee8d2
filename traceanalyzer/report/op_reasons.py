"""Explains why individual ops ran where they did."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from traceanalyzer.attribution import cause_of
from traceanalyzer.causes import FindingText, all_causes, cause_title
from traceanalyzer.causes.knowledge.candidates import SETTLED_BY, Candidates
from traceanalyzer.causes.knowledge.finding_text import blocker_text
from traceanalyzer.cpu_ops import Analysis, CpuOp
from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.exclusions import ruled_out, types_missing
from traceanalyzer.findings import CERTAINTIES, Finding
from traceanalyzer.format import listed
from traceanalyzer.model import Certainty, Evidence, Fix, SourceWhere
from traceanalyzer.model import blocks as b
from traceanalyzer.placement.blocker import Blocker, BlockerKind
from traceanalyzer.placement.devices import device_text
from traceanalyzer.report.records import evidence_shown, place_of
from traceanalyzer.report.text import cut, phrase, prose, sentence, word
from traceanalyzer.tables.functions import CONSTANTS
from traceanalyzer.tables.vocabulary import PYTHON_CALLBACKS, Role

_EVIDENCE_SHOWN: Final = 6


class _Reason(NamedTuple):
    """One reason why an op is not on a GPU."""

    title: str
    certainty: Certainty
    cause: str = ""  # "" if unknown; then there is no text
    text: FindingText | Finding | None = None
    evidence: tuple[Evidence, ...] = ()
    tie: str = ""  # how it affects the op; "" for a reason of the op itself


class Reasoner:
    """Finds the reasons for the placement of individual ops."""

    def __init__(self, diagnosis: Diagnosis) -> None:
        self._diagnosis = diagnosis
        self._run = diagnosis.run
        self._causes = all_causes()
        self._captured = {host.name for host, _ in self._run.captured}
        self._candidates = Candidates(self._run)
        every = self._diagnosis.cpu_ops.values()
        self._of_node = {(op.host, *op.node): op for op in every if op.node[1]}

    def here(self, row: Any) -> Iterator[b.Block]:  # noqa: ANN401 - a row of the op table
        """Yield the reasons for an op's placement in this run."""
        cpu_op = self._diagnosis.cpu_ops.get(row.op_id) or self._diagnosis.idle.get(row.op_id)
        reasons = self._reasons(row.op_id, cpu_op, self._diagnosis.findings)
        why, is_open = "", False
        if row.role != Role.COMPUTE:
            is_folded = row.function == CONSTANTS
            why = phrase("folded") if is_folded else word("not_computing", row.role)
        elif row.placement == "unknown":
            why, is_open = "The device that ran it is unknown.", True
        elif row.placement != "cpu":
            why = "" if reasons else "It is not on the CPU."
        elif cpu_op is not None and not reasons:
            why, is_open = "The reason why it is on the CPU is unknown.", True
        if why:
            yield b.Note(text=prose(why))
        if row.role != Role.COMPUTE or row.placement != "cpu":
            cpu_op = None
        if cpu_op is not None and not reasons:
            yield from self._possible_causes(cpu_op)
        yield from self._explained(cpu_op, reasons)
        if is_open and row.host not in self._captured:
            yield b.Note(text=prose(sentence(SETTLED_BY)))

    def on_a_gpu(self, row: Any) -> Iterator[b.Block]:  # noqa: ANN401
        """Yield an op's predicted placement on a machine with a GPU, and the reasons, if known."""
        replay = self._diagnosis.on_a_gpu
        if replay is None or row.host not in self._captured or row.role != Role.COMPUTE:
            return
        there, op_id = replay.analysis, row.op_id
        is_replaced, on_host = op_id in there.replaced, there.on_host.get(op_id)
        cpu_op = None if is_replaced else there.cpu_ops.get(op_id) or on_host
        reasons = () if is_replaced else self._reasons(op_id, cpu_op, replay.findings)
        if cpu_op is not None:
            where = _stays(cpu_op, is_on_gpu=cpu_op is on_host, is_known=bool(reasons))
        elif reasons:
            where = "It would be on the CPU there only while the program hides the GPU."
        else:
            where = _moves(row, there)
        where = f" {where} Assumed: {replay.assumption}."
        yield b.Note(text=(b.Strong(text="With a GPU:"), *prose(where)))
        doubts = () if is_replaced else replay.program_differs
        yield from self._explained(cpu_op, reasons, doubts, is_on_gpu=cpu_op is on_host)

    def _explained(
        self,
        cpu_op: CpuOp | None,
        reasons: Sequence[_Reason],
        doubts: Sequence[str] = (),
        *,
        is_on_gpu: bool = False,
    ) -> Iterator[b.Block]:
        yield from map(_fold, range(1, len(reasons) + 1), reasons)
        if cpu_op is not None:
            explanation = cpu_op.explanation
            doubts = (explanation.contradiction, explanation.doubt, *doubts)
            are_all = explanation.is_complete and 0 < len(explanation.blockers) == len(reasons)
            if are_all and not is_on_gpu:
                key = "all_blockers" if len(reasons) > 1 else "only_blocker"
                key = key if explanation.basis == "replay" else f"{key}_inferred"
                yield b.Note(text=(phrase(key),))
        for text in dict.fromkeys(map(sentence, filter(None, doubts))):
            yield b.Note(text=prose(text), tone="warning")
        if cpu_op is not None:
            excluded = ruled_out(self._run, cpu_op, {reason.cause for reason in reasons})
            facts = tuple((f"{out.cause}: ", *prose(out.because)) for out in excluded)
            if facts:
                yield b.Fold(summary=("Ruled out",), blocks=(b.Bullets(items=facts),))

    def _reasons(
        self, op_id: str, cpu_op: CpuOp | None, findings: Sequence[Finding]
    ) -> tuple[_Reason, ...]:
        """Return the reasons for an op's placement: blockers, and findings with other causes."""
        blocked_by = []
        if cpu_op is not None:
            blocked_by = [self._blocked_by(cpu_op, each) for each in cpu_op.explanation.blockers]
        causes = {reason.cause.partition("/")[0] for reason in blocked_by}
        others = (
            _Reason(f.title, f.certainty, _full_id(f.cause, f.sub_reason), f, f.evidence)
            for f in findings
            if op_id in f.op_ids and f.cause not in causes
        )
        return tuple(
            reason._replace(evidence=evidence_shown(reason.evidence, self._run))
            for reason in (*others, *blocked_by)
        )

    def _blocked_by(self, cpu_op: CpuOp, blocker: Blocker) -> _Reason:
        known, certainty = cause_of(cpu_op, blocker, self._causes), cpu_op.explanation.certainty
        # The title of some blockers names the resource.
        is_named = blocker.kind in {BlockerKind.ASSIGNED, BlockerKind.RESOURCE}
        tie = "" if blocker.link == "resource" and is_named else word("blocked_by", blocker.link)
        if known is None:
            return _Reason(blocker_text(blocker), certainty, tie=tie)
        cause, match, text = known
        text = replace(text, fixes=self._fixes_of_lead(cpu_op, blocker) or text.fixes)
        certainty = max(certainty, match.certainty, key=CERTAINTIES.index)
        cause_id = _full_id(cause.id, match.sub_reason)
        return _Reason(text.title, certainty, cause_id, text, match.evidence, tie)

    def _fixes_of_lead(self, cpu_op: CpuOp, blocker: Blocker) -> tuple[Fix, ...]:
        """Return the fixes of the op that another one is inferred to follow, as changes do."""
        lead = self._of_node.get((cpu_op.host, blocker.function, blocker.name))
        is_tied = blocker.link in {"class", "follows"} and lead is not cpu_op
        if lead is None or not is_tied or cpu_op.explanation.basis != "inference":
            return ()
        found = (cause_of(lead, each, self._causes) for each in lead.explanation.blockers)
        return next((known[2].fixes for known in found if known is not None), ())

    def _possible_causes(self, cpu_op: CpuOp) -> Iterator[b.Note]:
        named = {cause: cause_title(cause) for cause in self._candidates.of(cpu_op)}
        if "dtype_unsupported" in named and cpu_op.explanation.types_missing:
            named["dtype_unsupported"] = f"if its dtype is {types_missing(cpu_op)}"
        if named:
            causes = listed([f"{cause} ({what})" for cause, what in named.items()])
            yield b.Note(text=(b.Strong(text="Possible causes:"), *prose(f" {causes}.")))


def _full_id(cause: str, sub_reason: str | None) -> str:
    return f"{cause}/{sub_reason}" if sub_reason else cause


def _stays(cpu_op: CpuOp, *, is_on_gpu: bool, is_known: bool) -> str:
    modal = "may" if cpu_op.explanation.certainty == "possible" else "would"
    stays = f"It {modal} be on the CPU there too."
    if is_on_gpu:
        device = device_text(cpu_op.explanation.blockers[0].requested_device)
        stays = f"It {modal} be placed on {device} but computed on the host, by design."
    return stays if is_known else f"{stays} The reason is unknown."


def _moves(row: Any, there: Analysis) -> str:  # noqa: ANN401
    if row.op_id in there.replaced:
        return f"{there.replaced[row.op_id]}."
    if row.op_id in there.unsure:
        return f"It may be on the CPU there too: {there.unsure[row.op_id]}."
    if row.op_id in there.not_replayed:
        return "Its device there is unknown: its node is not in the capture."
    if row.type in PYTHON_CALLBACKS:
        return phrase("calls_python")
    return "It would not be on the CPU there."


# --- as blocks -----------------------------------------------------------------------------------


def _fold(number: int, reason: _Reason) -> b.Fold:
    title = prose(f"{number}. {reason.tie}{reason.title} ({reason.certainty})")
    harm = "" if reason.text is None else f", {reason.text.harm.replace('_', ' ')}"
    cause = f"{reason.cause or 'no known cause'} ({reason.certainty}{harm})"
    blocks: list[b.Block] = [b.Note(text=(cause,))]
    if reason.text is not None and reason.text.why:
        blocks.append(b.Note(text=prose(reason.text.why)))
    facts = [*map(_fact, reason.evidence[:_EVIDENCE_SHOWN])]
    if len(reason.evidence) > _EVIDENCE_SHOWN:
        facts.append((f"and {len(reason.evidence) - _EVIDENCE_SHOWN} more like these",))
    if facts:
        blocks.append(b.Bullets(items=tuple(facts)))
    for fix in () if reason.text is None else reason.text.fixes:
        verified = " (verified)" if fix.checked else ""
        blocks.append(b.Note(text=prose(f"Fix{verified}: {fix.text}")))
        if fix.code:
            lines = tuple(fix.code.strip().split("\n"))
            blocks.append(b.Source(file="", first_line=0, lines=lines))
    return b.Fold(summary=title, blocks=tuple(blocks))


def _fact(evidence: Evidence) -> b.Text:
    place, where = place_of(evidence), evidence.where
    at: b.Text = (f" [{cut(place)}]",) if place else ()
    if isinstance(where, SourceWhere) and where.source is not None:
        at = (*at, " ", b.Code(text=cut(where.source.strip())))
    return (*prose(evidence.text), *at)

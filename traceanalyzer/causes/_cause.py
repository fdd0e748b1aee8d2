"""The record of a cause, the types that its functions use, and its texts.

`texts/CAUSE.toml` has a cause's `page`, which `traceanalyzer explain` prints, and the text of its
findings, by case. A case inherits missing fields from the top of the file, which describes the
usual case:

- `title` and `why`: the text of the finding.
- `harm`: harmful, harmless, or by_design.
- `fixes`: each has a `title`, `more` details, a `condition` under which it helps, and `code`, or
  only a `text` if there is nothing to do. A `checked` fix removes the blocker, so in a replay, it
  moves ops that have no other blocker. Causes with a table `fix` choose fixes from it.

Texts can contain {ops} (the ops' types, with their line if they share one), {at} (their lines, for
the end of a title), {type} (the blocked op's type), {blocker} (a clause about the blocker), {scope}
(the `tf.device` call), {lines} (the lines that enter the scope), {device} (the requested device),
{function} (the called function), {copied} (a note on copies), and names that the cause fills in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from types import ModuleType
from typing import Any, Literal

from traceanalyzer.capture_file.document import Frame, lines_text, same_place
from traceanalyzer.causes.knowledge.finding_text import (
    COPIED,
    at_lines,
    blocker_text,
    fix_of,
    function_text,
    observed,
    runs_for_dataset,
    scope_text,
    types_at,
)
from traceanalyzer.causes.knowledge.inside_calls import caller_of
from traceanalyzer.cpu_ops import CpuOp
from traceanalyzer.data_files import toml
from traceanalyzer.findings import Finding, FindingText
from traceanalyzer.model import Certainty, Evidence, Fix
from traceanalyzer.placement.blocker import Blocker
from traceanalyzer.placement.devices import device_text
from traceanalyzer.run import Run

__all__ = ["BlockedOps", "Blocker", "Cause", "CauseMatch", "CpuOp", "FindingText", "finding", "fix"]


@dataclass(frozen=True)
class BlockedOps:
    """One or more ops that share a finding, each with the blocker that the cause matched."""

    members: tuple[tuple[CpuOp, Blocker], ...]

    @property
    def ops(self) -> list[CpuOp]:
        """The ops."""
        return [cpu_op for cpu_op, _ in self.members]

    @property
    def blockers(self) -> list[Blocker]:
        """The blocker of each op."""
        return [blocker for _, blocker in self.members]

    @property
    def blocker(self) -> Blocker:
        """The first op's blocker. The other ops' blockers have the same scope."""
        return self.members[0][1]

    @property
    def library(self) -> Frame | None:
        """The library line that creates the first op, if libraries create all the ops."""
        lines = [op.explanation.library for op in self.ops]
        return None if None in lines else lines[0]

    @property
    def caller(self) -> str:
        """The function of TensorFlow that creates all the ops inside, or ""."""
        lines = [None if b.frame is None else b.frame.text for b in self.blockers]
        found = {caller_of(b.type, at) for b, at in zip(self.blockers, lines, strict=True)}
        return "" if "" in found else min(found)

    @property
    def fallback(self) -> tuple[str, ...]:
        """The modifier `soft_placement_fallback` if a GPU was requested for any of the ops."""
        requested = any("GPU" in (op.requested_device or "").upper() for op in self.ops)
        return ("soft_placement_fallback",) if requested else ()

    @property
    def are_input(self) -> bool:
        """Whether all ops run in functions that input pipelines call."""
        return all(runs_for_dataset(cpu_op, blocker) for cpu_op, blocker in self.members)

    @property
    def have_no_other_blocker(self) -> bool:
        """Whether a replay proves that the ops move to a GPU without these blockers."""
        return all(
            op.explanation.blockers == (blocker,) and op.explanation.certainty == "certain"
            for op, blocker in self.members
        )

    def described(
        self,
        case: str,
        fixes: Iterable[Fix] | None = None,
        *,
        modifiers: tuple[str, ...] = (),
        **values: str,
    ) -> FindingText:
        """Return the text of a case, `CAUSE/CASE`, with its fixes unless others are given."""
        first = self.blocker
        known = {
            "ops": types_at(self.ops),
            "at": at_lines(self.ops),
            "type": first.type,
            "blocker": blocker_text(first),
            "function": function_text(*self.members[0]),
            "scope": scope_text(first),
            "lines": lines_text(blocker.scope_frame for blocker in self.blockers),
            "device": device_text(first.requested_device) or "the CPU",
        }
        text = _text_of(case, fixes, {**known, **values})
        if fixes is None and not self.have_no_other_blocker:
            text = replace(text, fixes=tuple(replace(each, checked=False) for each in text.fixes))
        return replace(text, modifiers=modifiers)

    def checked(self, fixes: Iterable[Fix]) -> tuple[Fix, ...]:
        """Return the fixes, marked as unchecked if the ops may have other blockers."""
        is_enough = all(
            len(op.explanation.blockers) <= 1
            and (op.explanation.is_complete or op.explanation.basis != "replay")
            for op in self.ops
        )
        return tuple(replace(each, checked=each.checked and is_enough) for each in fixes)


@dataclass(frozen=True, kw_only=True)
class CauseMatch:
    """The match of an op's blocker with a cause."""

    #: Ops with equal scopes share a finding. It must be the same when the program is recorded
    #: again, so it contains no line numbers and no counters.
    scope: str
    evidence: tuple[Evidence, ...]
    certainty: Certainty = "certain"  #: the highest that this cause allows
    sub_reason: str | None = None
    #: File and line of the cause, if a scope can have several: each has its own finding.
    line: tuple[str, int] | None = None
    #: Whether the finding names this cause, whatever other blockers come first.
    leads: bool = False

    @classmethod
    def by_other(
        cls, blocker: Blocker, tie: Evidence, place: str = "", sub_reason: str | None = None
    ) -> CauseMatch:
        """Return the match for a blocker of another op, with evidence that links the ops."""
        attributes = " ".join(f"{k}={v}" for k, v in sorted(blocker.attributes.items()))
        other = f"{blocker.type} {blocker.kind.value} {attributes}"
        line = blocker.scope_frame or blocker.frame
        return cls(
            scope=f"{other} {same_place(blocker.scope_frame)}",
            evidence=(tie, observed("blocker", blocker_text(blocker), place, line=line)),
            sub_reason=sub_reason,
        )


def _texts(cause: str) -> Mapping[str, Any]:
    try:
        return toml(f"causes/texts/{cause}.toml")
    except FileNotFoundError:
        return {}


def _text_of(case: str, fixes: Iterable[Fix] | None, values: Mapping[str, str]) -> FindingText:
    cause, _, name = case.partition("/")
    entry = {**_texts(cause), **(_texts(cause)[name] if name else {})}
    values = {"copied": COPIED, **values}
    if fixes is None:
        fixes = (fix_of(each, values) for each in entry.get("fixes", ()))
    title, why = (entry[name].format_map(values) for name in ("title", "why"))
    return FindingText(title=title, why=why, harm=entry["harm"], fixes=tuple(fixes))


def _matches_nothing(_op: CpuOp, _blocker: Blocker) -> None:
    return None


def _finds_nothing(_: Run) -> Iterable[Finding]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A reason why ops run on the CPU: a module here, whose names these fields have.

    A cause examines a whole run (`check`), or individual blockers of ops (`match` and `describe`).
    Each blocker belongs to exactly one cause.
    """

    id: str  #: the name of its module, and of the cause in reports
    check: Callable[[Run], Iterable[Finding]] = _finds_nothing
    #: Returns how a blocker of an op belongs to this cause, or None.
    match: Callable[[CpuOp, Blocker], CauseMatch | None] = _matches_nothing
    #: Returns the text of the finding about ops whose first blocker belongs to this cause, by
    #: default the usual case of its texts.
    describe: Callable[[BlockedOps], FindingText] | None = None
    #: What a run must have for `check` to find anything: a GPU in use, or a capture file.
    needs: Literal["nothing", "gpu", "capture"] = "nothing"
    #: Returns another reason why the cause cannot apply to a run, or None.
    not_applicable: Callable[[Run], str | None] = lambda _: None

    @classmethod
    def of(cls, module: ModuleType) -> Cause:
        """Return the cause that a module defines."""
        own = vars(module)
        given = {each.name: own[each.name] for each in fields(cls) if each.name in own}
        return cls(id=module.__name__.rpartition(".")[2], **given)

    @property
    def documentation(self) -> str:
        """The cause's page, as Markdown; "" if there is no page."""
        return str(_texts(self.id).get("page", "")).strip()

    @property
    def title(self) -> str:
        """The first line of the page."""
        known = self.documentation or self.id.replace("_", " ")
        return known.partition("\n")[0].rstrip(".")

    @property
    def is_of_runs(self) -> bool:
        """Whether the cause only examines whole runs."""
        return self.match is _matches_nothing

    def why_not(self, run: Run) -> str | None:
        """Return why the cause cannot apply to a run, or None."""
        needs_gpu = self.needs == "gpu" or self.check is _finds_nothing
        if needs_gpu and not run.gpu_used:
            return "TensorFlow used no GPU; see the prediction for a machine with one"
        if self.needs == "capture" and not run.captured:
            return "it needs data that only a capture records"
        return self.not_applicable(run)

    def described(self, ops: BlockedOps) -> FindingText:
        """Return the text of the finding about ops whose first blocker belongs to this cause."""
        return ops.described(self.id) if self.describe is None else self.describe(ops)


def finding(
    case: str,
    fixes: Iterable[Fix] | None = None,
    values: Mapping[str, str] | None = None,
    **given: Any,  # noqa: ANN401 - the other fields of the finding
) -> Finding:
    """Return a finding with the text of a case, `CAUSE/CASE`, and its fixes unless given."""
    text = _text_of(case, fixes, values or {})
    return Finding(cause=case.partition("/")[0], **vars(text), **given)


def fix(case: str, /, *, checked: bool = False, **values: str) -> Fix:
    """Return a fix, `CAUSE/FIX`, from the `fix` table of a cause's texts."""
    cause, _, name = case.partition("/")
    return fix_of({**_texts(cause)["fix"][name], "checked": checked}, values)

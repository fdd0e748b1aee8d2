"""From what keeps each op from a GPU to findings: ops that are kept alike make one."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from traceanalyzer.evidence.device_arguments import argument_note
from traceanalyzer.evidence.pinned import memory_note
from traceanalyzer.findings import Finding
from traceanalyzer.model import Blocker, Evidence, Fix
from traceanalyzer.placement.blockers import Hold

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from traceanalyzer.evidence.analysis import Analysis, Subject
    from traceanalyzer.evidence.held import Held
    from traceanalyzer.model import Certainty
    from traceanalyzer.rules import Mark, Rule, Words
    from traceanalyzer.run import Run

__all__ = ["attribute", "cause_of"]

_log = logging.getLogger("traceanalyzer")


class _Cause(NamedTuple):
    """What marks of one cause have in common."""

    rule: str
    scope: str
    line: tuple[str, int]


_Key: TypeAlias = tuple[_Cause, ...]  # the causes that keep an op, in order

_ORDER: Final[tuple[Certainty, ...]] = ("certain", "likely", "possible")
_MEMORY: Final = "memory_pressure"
_LIBRARY: Final = "library_cpu_placement"
_UNKNOWN_CODE: Final = "other"  # of a library
_BY_DEVICE: Final = frozenset({Hold.REQUEST, Hold.DEFAULT_DEVICE, Hold.ASSIGNED, Hold.RESOURCE})
_STAYS: Final = Fix(
    text=(
        "No change is known that moves these ops: a replay without the requested device still puts "
        "them on the CPU."
    )
)
_EACH_NEEDED: Final = Fix(
    text="Several things keep these ops on the CPU: they move only once all of them are changed."
)
_MOST_EVIDENCE: Final = 20  # of one finding; each op of it has more of the same


@dataclass(frozen=True, kw_only=True)
class _Recognised:
    rule: Rule
    held: Held
    mark: Mark

    @property
    def cause(self) -> _Cause:
        return _Cause(self.rule.id, self.mark.scope, self.mark.line or ("", 0))


def attribute(analysis: Analysis, rules: Sequence[Rule]) -> tuple[list[Finding], dict[str, str]]:
    """Make findings of what keeps the ops of an analysis from a GPU.

    Each op is in one finding at most: that of the cause which bites first. Ops that the same things
    keep are in the same one. An op with something that no rule knows stays unexplained, and so does
    one of which the replay says something else than was seen.

    Args:
        analysis: The ops.
        rules: The rules that say which cause something is of.

    Returns:
        The findings; and the rules that raised, with the reason: they have no findings.
    """
    failed: dict[str, str] = {}
    groups: dict[_Key, list[tuple[Subject, list[_Recognised]]]] = {}
    for subject in analysis.subjects:
        if subject.case.contradiction:
            continue  # what the replay says of it is not what happened
        known: list[_Recognised] = []
        for held in subject.case.held:
            found = _recognise(subject, held, rules, failed)
            if found is None:
                break
            known.append(found)
        else:
            if known:
                known, key = _led(known)
                groups.setdefault(key, []).append((subject, known))
    dragged = _dragged_along(analysis)
    scopes = _scopes(groups)
    findings = []
    for key, members in groups.items():
        try:
            finding = _finding(scopes[key], members, dragged)
            finding = _with_memory(finding, analysis.run, members)
            findings.append(_with_argument(finding, analysis.run, members))
        except Exception as error:  # noqa: BLE001 - whatever a rule does wrong is its own
            failed[key[0].rule] = _log_failure(key[0].rule, error)
    return [f for f in findings if f.cause not in failed], failed


def _led(known: list[_Recognised]) -> tuple[list[_Recognised], _Key]:
    """Put a mark that leads ahead of the others; return them, and what their finding goes by.

    Ops of one finding have blockers of the same rules: beside one that leads, that is enough.
    """
    leading = next((each for each in known if each.mark.leads), None)
    if leading is None:
        return known, tuple(dict.fromkeys(each.cause for each in known))
    others = [each for each in known if each is not leading]
    rules = sorted({each.rule.id for each in others})
    key = (leading.cause, *(_Cause(rule, "", ("", 0)) for rule in rules))
    return [leading, *others], key


def cause_of(
    subject: Subject, held: Held, rules: Sequence[Rule]
) -> tuple[Rule, Mark, Words] | None:
    """Return the rule that knows what keeps an op from a GPU, and what it says of that op alone.

    Returns:
        None where no rule knows it, or the one that does raised.
    """
    found = _recognise(subject, held, rules, {})
    if found is None or found.rule.words is None:
        return None
    try:
        return found.rule, found.mark, found.rule.words([(subject, held)])
    except Exception as error:  # noqa: BLE001 - whatever a rule does wrong is its own
        _log_failure(found.rule.id, error)
        return None


def _recognise(
    subject: Subject, held: Held, rules: Sequence[Rule], failed: dict[str, str]
) -> _Recognised | None:
    for rule in rules:
        if rule.id in failed:
            continue
        try:
            mark = rule.recognises(subject, held)
        except Exception as error:  # noqa: BLE001 - whatever a rule does wrong is its own
            failed[rule.id] = _log_failure(rule.id, error)
            continue
        if mark is not None:
            return _Recognised(rule=rule, held=held, mark=mark)
    return None


def _log_failure(rule: str, error: Exception) -> str:
    """Tell the log of a rule that raised; the others go on."""
    _log.exception("rule %s failed", rule)
    return f"{type(error).__name__}: {error}"


def _dragged_along(analysis: Analysis) -> dict[str, list[str]]:
    """Return, for each op that holds others through a group or as their neighbour, these."""
    op_of_node = {s.node: s.op_id for s in analysis.subjects if s.node[1]}
    found: dict[str, list[str]] = {}
    for subject in analysis.subjects:
        for held in subject.case.held:
            holder = op_of_node.get((held.function, held.name))
            if held.link in {"class", "follows"} and holder is not None:
                found.setdefault(holder, []).append(subject.op_id)
    return found


def _scopes(keys: Iterable[_Key]) -> dict[_Key, str]:
    """Return what tells the findings apart, the same when the program is recorded again.

    An edit moves lines, but not their order: those that nothing but the line tells apart are
    numbered, all but the first, which has the scope alone.
    """
    scopes: dict[_Key, str] = {}
    taken: Counter[str] = Counter()
    for key in sorted(keys, key=lambda key: [cause.line for cause in key]):
        scope = "\0".join(f"{cause.rule}\1{cause.scope}" for cause in key)
        taken[scope] += 1
        scopes[key] = scope if taken[scope] == 1 else f"{scope}\0{taken[scope]}"
    return scopes


def _finding(
    scope: str,
    members: Sequence[tuple[Subject, list[_Recognised]]],
    dragged: Mapping[str, Sequence[str]],
) -> Finding:
    rule = members[0][1][0].rule
    mark = members[0][1][0].mark
    if rule.words is None:
        msg = f"{rule.id} recognises a cause and has no words for it"
        raise TypeError(msg)
    words = rule.words([(subject, known[0].held) for subject, known in members])
    op_ids = tuple(subject.op_id for subject, _ in members)
    by_cause: dict[_Cause, list[tuple[Subject, _Recognised]]] = {}
    for subject, known in members:
        for each in known:
            by_cause.setdefault(each.cause, []).append((subject, each))
    blockers = tuple(_blocker(of_cause) for of_cause in by_cause.values())
    return Finding(
        cause=rule.id,
        sub_reason=mark.sub_reason,
        scope=scope,
        certainty=_least([b.certainty for b in blockers]),
        harm=words.harm,
        title=words.title,
        why=words.why,
        op_ids=op_ids,
        dragged_along=tuple(
            op_id
            for op_id in dict.fromkeys(d for named in op_ids for d in dragged.get(named, ()))
            if op_id not in op_ids
        ),
        evidence=(*blockers[0].evidence, *_choices(s for s, _ in members)),
        blockers=blockers if len(blockers) > 1 else (),
        modifiers=words.modifiers,
        fixes=_fixes(words, list(by_cause.values())),
    )


def _choices(subjects: Iterable[Subject]) -> tuple[Evidence, ...]:
    """Return why ops are only possibly on the CPU: the program may choose another device."""
    doubts = (s.case.doubt for s in subjects if s.case.certainty == "possible")
    return tuple(Evidence(kind="choice", text=doubt) for doubt in dict.fromkeys(doubts) if doubt)


def _fixes(
    words: Words, blockers: Sequence[Sequence[tuple[Subject, _Recognised]]]
) -> tuple[Fix, ...]:
    """Return what to change about what keeps ops on the CPU, all of it, if that moves them."""
    by_device = all(each.held.hold in _BY_DEVICE for blocker in blockers for _, each in blocker)
    cases = [subject.case for blocker in blockers for subject, _ in blocker]
    if by_device and words.harm == "harmful" and not any(case.is_complete for case in cases):
        return (_STAYS,)
    return words.fixes if len(blockers) == 1 else _all_fixes(blockers)


def _all_fixes(blockers: Sequence[Sequence[tuple[Subject, _Recognised]]]) -> tuple[Fix, ...]:
    """Return what to change about several blockers, each of which keeps the ops by itself.

    Where a library's code asks for the CPU, only that code's user can do something. Where an op has
    no GPU kernel, or works on what is on the host by design, the others do not matter.
    """
    each = [
        (blocker[0][1], rule_words([(subject, by.held) for subject, by in blocker]))
        for blocker in blockers
        if (rule_words := blocker[0][1].rule.words) is not None
    ]
    lasting = [words for by, words in each if by.rule.id == _LIBRARY] or [
        words for by, words in each if by.held.hold is Hold.NO_KERNEL or words.harm == "by_design"
    ]
    fixes = [fix for words in lasting or [w for _, w in each] for fix in words.fixes]
    distinct = list({fix.code or fix.text: fix for fix in reversed(fixes)}.values())[::-1]
    if len(distinct) > 1 and not lasting:
        return (_EACH_NEEDED, *(replace(fix, checked=False) for fix in distinct))
    return tuple(distinct)


def _with_memory(
    finding: Finding, run: Run, members: Sequence[tuple[Subject, list[_Recognised]]]
) -> Finding:
    """Add to a finding whether what the program keeps on the CPU would fit the GPU.

    It is no blocker: the scope alone decides, whatever made its author write it.
    """
    note = memory_note(run, [(subject, known[0].held) for subject, known in members])
    if note is None:
        return finding
    modifiers = finding.modifiers if note.certainty is None else (*finding.modifiers, _MEMORY)
    return replace(
        finding,
        modifiers=modifiers,
        evidence=(*finding.evidence, *note.evidence),
        ruled_out=(*finding.ruled_out, *note.ruled_out),
        fixes=(*finding.fixes, *note.fixes),
    )


def _with_argument(
    finding: Finding, run: Run, members: Sequence[tuple[Subject, list[_Recognised]]]
) -> Finding:
    """Add to a finding the argument of the command line that likely chose the device."""
    if finding.cause == _LIBRARY and finding.sub_reason != _UNKNOWN_CODE:
        return finding
    sidecars = [host.sidecar for host in run.hosts if host.sidecar is not None]
    note = argument_note([known[0].held for _, known in members], sidecars)
    if note is None:
        return finding
    evidence, fix = note
    others = finding.fixes if finding.blockers else ()
    return replace(finding, evidence=(*finding.evidence, evidence), fixes=(fix, *others))


def _blocker(of_cause: Sequence[tuple[Subject, _Recognised]]) -> Blocker:
    certainties: list[Certainty] = []
    evidence: dict[Evidence, None] = {}
    for subject, each in of_cause:
        certainties += (subject.case.certainty, each.mark.certainty)
        evidence.update(dict.fromkeys(each.mark.evidence))
    return Blocker(
        cause=of_cause[0][1].rule.id,
        certainty=_least(certainties),
        sufficient=True,  # with all others gone, each still keeps the op: see `Case.held`
        evidence=tuple(evidence)[:_MOST_EVIDENCE],
    )


def _least(certainties: Sequence[Certainty]) -> Certainty:
    return max(certainties, key=_ORDER.index)

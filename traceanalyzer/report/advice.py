"""Builds the advice after the verdict: the first change, or where to look."""

from typing import Final

from traceanalyzer.changes import moves_ops
from traceanalyzer.changes.already import share_in_full_precision
from traceanalyzer.format import percent_text
from traceanalyzer.model.blocks import Code, Line, Link, Strong, Text
from traceanalyzer.model.changes import Change
from traceanalyzer.report import text as t
from traceanalyzer.report.answer import doubt, has_gpu, no_gpu
from traceanalyzer.report.changes import saving_text
from traceanalyzer.report.page_facts import PageFacts

_MOST: Final = 0.5
_MOSTLY_COMPUTING: Final = 0.7  # of a step
_FEWEST_STEPS: Final = 3
_WORTH_HALF: Final = 0.3  # of the kernel time, in ops that half precision speeds up
_ABOUT_KERNELS: Final = frozenset({"mixed_precision"})
_NEXT: Final = Strong(text="Do this next:")


def to_do(facts: PageFacts) -> Text:
    """Return the advice after the verdict: the first change, or where to look."""
    if facts.failure is not None and not facts.failure.missing and facts.run.ops.empty:
        return ("Fix the error, then record again.",)
    if facts.gpu_work_lost is not None:
        return (_NEXT, " ", *t.prose(facts.gpu_work_lost.fix))
    advice = _next(facts)
    if facts.kind != "D":
        return advice
    # Why there is no GPU matters less than what takes the time.
    is_first = facts.hardly_matters and facts.first_change is not None
    parts = (advice, no_gpu(facts)) if is_first else (no_gpu(facts), advice)
    return (*parts[0], " ", *parts[1]) if all(parts) else parts[0] or parts[1]


def _next(facts: PageFacts) -> Text:
    """Return what to do next; () if there is nothing to do."""
    change = facts.first_change
    if change is None:
        key = _advice(facts)
        share = percent_text(share_in_full_precision(facts.run)) if key in _ABOUT_KERNELS else ""
        said = t.phrase(key, share=share) if key else ""
        before, is_next, after = said.partition("NEXT")
        return (*t.prose(before), *([_NEXT] if is_next else []), *t.prose(after))
    is_said = facts.kind == "D" and facts.is_placed_well and not facts.hardly_matters
    is_said = is_said and not moves_ops(facts.changes)
    return (*([t.phrase("placed_well"), " "] if is_said else []), *_change(facts, change))


def _advice(facts: PageFacts) -> str:
    """Return the key of the advice in `words.toml` for a page without a change to lead with."""
    if facts.kind in {"C", "D"} and facts.hardly_matters:
        return ""  # the verdict says so
    if facts.kind == "E":
        return _advice_unexplained(facts)
    if facts.kind in {"A", "C"}:
        return "not_worth_it" if facts.kind == "A" else "why_no_gpu"
    is_well = "placed_well" if facts.is_placed_well else "not_worth_it"
    if not facts.is_explained:
        is_well = "unknown_causes" if facts.run.gpu_used else "unknown_placement"
    return (_advice_on_speed(facts) if facts.kind == "B" else "") or is_well


def _advice_on_speed(facts: PageFacts) -> str:
    is_open = doubt(facts) and not facts.run.captured
    if is_open or facts.step.part_share("unknown") >= _MOST:
        return "record_host"
    too_few = "too_few_steps" if facts.step_us and facts.steps < _FEWEST_STEPS else ""
    if facts.has_steps and too_few:
        return too_few  # how long the device computes in a usual step is not known
    if facts.step.part_share("compute") >= _MOSTLY_COMPUTING:
        is_large = share_in_full_precision(facts.run) >= _WORTH_HALF
        return "mixed_precision" if is_large else "faster_kernels"
    return too_few


def _advice_unexplained(facts: PageFacts) -> str:
    if facts.run.ops.empty and facts.jax_version is not None:
        return "jax_no_ops"
    if facts.compiled_on_cpu:
        return "record_ops" if facts.jax_version is None else "jax_on_cpu"
    if facts.compiled:
        is_busy = facts.step.part_share("compute") >= _MOSTLY_COMPUTING
        if facts.waits_unexplained and not is_busy:
            return "idle_compiled"
        return "not_explained" if doubt(facts) else "compiled"
    if facts.other_device == "pluggable device":
        return "pluggable"
    is_other = facts.other_device or facts.run.captured or not facts.on_cpu.empty
    return "not_explained" if is_other else "record_ops"


def _change(facts: PageFacts, change: Change) -> Text:
    title = Link(text=change.title.replace("`", ""), to=f"change-{change.id}")
    said: Text = (_NEXT, " ", title)
    if change.place is not None:
        said = t.fill("{} ({})", said, Line(file=change.place[0], line=change.place[1]))
    said = (*said, ".")
    if change.candidates and change.kind == "gpu":
        key = "why_no_gpu" if has_gpu(facts) else "why_no_gpu_or_none"
        said = t.fill("{} {}", said, t.prose(t.phrase(key)))
    elif change.candidates and change.candidates[0].check:
        first = change.candidates[0]
        named = first.title.rstrip(".")
        named = named if named[1:2].isupper() else t.small(named)
        check = Code(text=first.check)
        how = "One possible cause" if change.certainty == "possible" else "Most likely"
        said = t.fill("{} {}: {}; check with {}.", said, how, t.prose(named), check)
    saved = saving_text(change.saving)
    if saved:
        what = {"find_cause": "A fix", "gpu": "A GPU"}.get(change.kind, "It")
        verb = "frees" if change.saving.kind == "proxy" else "saves"
        said = t.fill("{} {} {} {}.", said, what, verb, saved)
    return said

"""Outputs a comparison as JSON, or as a page of the same types of blocks as a report's page."""

import json
from dataclasses import asdict
from typing import Any, Final

from msgspec.structs import replace

from traceanalyzer.compare.differences import Comparison, Difference, is_predicted, shared_text
from traceanalyzer.compare.step_times import why_not_compared
from traceanalyzer.format import counted
from traceanalyzer.model import Report
from traceanalyzer.model import blocks as b

SCHEMA_VERSION: Final = 1
_ON_CPU: Final = "on the CPU, not"
_SECTIONS: Final = {
    "moved": "Ops that moved",
    "unknown": "Ops whose device is unknown in one run",
    "finding": "Findings",
    "types": "Types",
    "shapes": "Shapes",
    "ops": "Renamed ops, and ops in only one run",
    "transfers": "Transfers",
    "input": "Input",
    "memory": "Memory",
    "environment": "Environment",
}


def as_json(comparison: Comparison, base: Report, new: Report) -> str:
    """Return a comparison as JSON; unknown values are null."""
    change = comparison.step_time
    data: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "base": base.run.name,
        "new": new.run.name,
        "shared_share": None if comparison.is_of_parts else round(comparison.shared, 6),
        "has_enough_in_common": comparison.has_enough_in_common,
        "step_time": None
        if change is None
        else {
            "base_us": round(change.base_us, 3),
            "new_us": round(change.new_us, 3),
            "change_low_share": round(change.low, 6),
            "change_high_share": round(change.high, 6),
            "is_seen": change.is_seen,
        },
        "differences": [asdict(difference) for difference in comparison.differences],
    }
    return json.dumps(data, indent=2) + "\n"


def page_of(comparison: Comparison, base: Report, new: Report) -> b.Page:
    """Return the page of a comparison."""
    steps = _step_bars(base, new) if comparison.has_enough_in_common else None
    sections = [*([steps] if steps else []), *_sections(comparison.differences)]
    return b.Page(
        kind="E",
        title=f"{base.run.name} and {new.run.name} - traceanalyzer",
        facts=(f"base: {base.run.name}", f"new: {new.run.name}", shared_text(comparison)),
        links=tuple(b.Link(text=section.title, to=section.id) for section in sections),
        happened=_happened(
            comparison, why_not_compared(base, new), is_predicted=is_predicted(base, new)
        ),
        next=_next(comparison),
        sections=tuple(sections),
    )


def _happened(comparison: Comparison, why_no_step_time: str, *, is_predicted: bool) -> b.Text:
    if not comparison.has_enough_in_common:
        return (f"These runs have too little in common to compare: {shared_text(comparison)}.",)
    said: list[b.Inline] = []
    change = comparison.step_time
    if change is None:
        said.append(f"Step times cannot be compared: {why_no_step_time}.")
    else:
        now, was = (b.Quantity(value=us, unit="us") for us in (change.new_us, change.base_us))
        said += [f"Steps: {change} (", now, " instead of ", was, ", median)."]
        if change.is_seen:
            said.append(" Two runs of one program on a quiet machine usually differ by less.")
    moved = [d for d in comparison.differences if d.kind == "moved"]
    changed = [d for d in comparison.differences if d.kind != "environment"]
    if moved:
        count = sum(len(d.ops) for d in moved)
        said.append(f" {counted(count, 'op')} moved." if count else f" {moved[0].text}.")
    elif not changed:
        said.append(" No op moved, and no other compared value changed.")
    elif any(d.kind == "unknown" for d in changed):
        said.append(" No op is known to have moved.")
    else:
        said.append(" No op moved.")
    if is_predicted:
        said.append(" Placements are predictions: not every run had a GPU.")
    return tuple(said)


def _next(comparison: Comparison) -> b.Text:
    if not comparison.has_enough_in_common:
        return ("Compare two captures of the same program.",)
    moved = (d.text for d in comparison.differences if d.kind == "moved" and _ON_CPU in d.text)
    first = next(moved, None)
    return () if first is None else (f"Look at this first: {first}.",)


def _step_bars(base: Report, new: Report) -> b.Section | None:
    bars: list[b.Bar] = []
    units: set[Any] = set()
    for name, report in (("base", base), ("new", new)):
        sections = () if report.page is None else report.page.sections
        for section in sections:
            for block in section.blocks:
                if isinstance(block, b.StepBar):
                    bars += [replace(bar, label=f"{name}: {bar.label}") for bar in block.bars]
                    units.add(block.unit)
    if len(units) != 1 or not bars:
        return None
    block = b.StepBar(unit=units.pop(), bars=tuple(bars))
    return b.Section(id="step", title="A step", blocks=(block,))


def _sections(differences: tuple[Difference, ...]) -> list[b.Section]:
    made = []
    for kind, title in _SECTIONS.items():
        found = [d for d in differences if d.kind == kind]
        if found:
            bullets = b.Bullets(items=tuple((d.text,) for d in found))
            made.append(b.Section(id=kind, title=title, blocks=(bullets,)))
    return made

"""From a diagnosis to its page: all sections, from top to bottom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.format import counted
from traceanalyzer.health import trace_health
from traceanalyzer.model.blocks import Link, Page, Tabs
from traceanalyzer.report.page_facts import PageFacts
from traceanalyzer.report.sections.about import about
from traceanalyzer.report.sections.answer import facts_of_the_bar, happened, to_do
from traceanalyzer.report.sections.changes import cards, changes
from traceanalyzer.report.sections.explore import explore
from traceanalyzer.report.sections.folds import folds
from traceanalyzer.report.sections.op_details import op_details
from traceanalyzer.report.sections.step_bar import step_bar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.model import Report
    from traceanalyzer.model.blocks import Section
    from traceanalyzer.model.changes import Change


def page_of(
    diagnosis: Diagnosis, found: Sequence[Change] = (), report: Report | None = None
) -> Page:
    """Return the page of a diagnosed run.

    Args:
        diagnosis: Of the run.
        found: What to change.
        report: The analysis that the section Explore shows; without it, the page has none.
    """
    facts = PageFacts(diagnosis=diagnosis, changes=_in_order(diagnosis, found))
    made = (
        step_bar(facts),
        changes(facts),
        folds(facts),
        cards(facts),
        None if report is None else explore(facts, report),
        about(facts),
    )
    sections = tuple(section for section in made if section is not None)
    return Page(
        kind=facts.kind,
        title=f"{diagnosis.run.name or diagnosis.run.path_name} - traceanalyzer",
        facts=facts_of_the_bar(facts),
        links=tuple(_links(sections, facts)),
        happened=happened(facts),
        next=to_do(facts),
        sections=sections,
        details={} if report is None else op_details(diagnosis, facts.changes),
    )


def _in_order(diagnosis: Diagnosis, found: Sequence[Change]) -> tuple[Change, ...]:
    """Return changes with those of the program first, if there is a prediction for a GPU.

    Why this machine showed no GPU matters less then, unless the program itself hides it.
    """
    there = diagnosis.on_a_gpu
    if there is None or not there.analysis.replayed or there.hides_gpus:
        return tuple(found)
    return tuple(sorted(found, key=lambda change: change.kind == "gpu"))


def _links(sections: Sequence[Section], facts: PageFacts) -> Iterator[Link]:
    """Walk the links of the bar: they read as what they lead to."""
    for section in sections:
        if section.id == "changes":
            yield Link(text=f"Changes {len(facts.changes)}", to=section.id)
        for block in section.blocks:
            for tab in block.tabs if isinstance(block, Tabs) else ():
                text = tab.title if tab.count is None else f"{tab.title} {tab.count:,}"
                yield Link(text=text, to=tab.id)
        if section.id == "about":
            severe = [e for e in trace_health(facts.run) if e.severity != "info"]
            warned = f" ({counted(len(severe), 'warning')})" if severe else ""
            yield Link(text=f"{section.title}{warned}", to=section.id)

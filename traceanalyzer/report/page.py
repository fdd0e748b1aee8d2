"""Builds the page of a diagnosis: all sections, from top to bottom."""

from collections.abc import Iterator, Sequence

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.format import counted
from traceanalyzer.health import trace_health
from traceanalyzer.model import Report
from traceanalyzer.model import blocks as b
from traceanalyzer.model.changes import Change
from traceanalyzer.report.about import about
from traceanalyzer.report.answer import facts_of_the_bar, happened, to_do
from traceanalyzer.report.changes import cards, changes
from traceanalyzer.report.folds import folds
from traceanalyzer.report.memory import memory_tab
from traceanalyzer.report.op_details import op_details
from traceanalyzer.report.ops import ops_tab
from traceanalyzer.report.page_facts import PageFacts
from traceanalyzer.report.scopes import scopes_tab
from traceanalyzer.report.steps import placement_bar, step_bar, steps_tab
from traceanalyzer.report.timeline import timeline_tab
from traceanalyzer.report.transfers import transfers_tab


def page_of(
    diagnosis: Diagnosis, found: Sequence[Change] = (), report: Report | None = None
) -> b.Page:
    """Return the page of a diagnosed run. Without `report`, it has no "Explore" section."""
    run, facts = diagnosis.run, PageFacts(diagnosis=diagnosis, changes=tuple(found))
    made = (
        placement_bar(facts),
        step_bar(facts),
        changes(facts),
        folds(facts),
        cards(facts),
        None if report is None else explore(facts, report),
        about(run),
    )
    sections = tuple(section for section in made if section is not None)
    return b.Page(
        kind=facts.kind,
        title=f"{run.name or run.path_name} - traceanalyzer",
        facts=facts_of_the_bar(facts),
        links=tuple(_links(sections, facts)),
        happened=happened(facts),
        next=to_do(facts),
        sections=sections,
        details={} if report is None else op_details(facts),
    )


def explore(facts: PageFacts, report: Report) -> b.Section | None:
    """Return the "Explore" section with its tabs, or None if nothing was recorded."""
    made = (
        timeline_tab(facts.diagnosis),
        ops_tab(facts),
        transfers_tab(facts.run, report.transfer_graph, report.round_trips),
        scopes_tab(facts.run),
        steps_tab(facts.devices, report.steps, report.input_pipeline),
        memory_tab(report.memory),
    )
    tabs = tuple(tab for tab in made if tab is not None)
    return b.Section(id="explore", title="Explore", blocks=(b.Tabs(tabs=tabs),)) if tabs else None


def _links(sections: Sequence[b.Section], facts: PageFacts) -> Iterator[b.Link]:
    for section in sections:
        if section.id == "changes":
            yield b.Link(text=f"Changes {len(facts.changes)}", to=section.id)
        for block in section.blocks:
            for tab in block.tabs if isinstance(block, b.Tabs) else ():
                yield b.Link(text=tab.title, to=tab.id)
        if section.id == "about":
            severe = [e for e in trace_health(facts.run) if e.severity != "info"]
            warned = f" ({counted(len(severe), 'warning')})" if severe else ""
            yield b.Link(text=f"{section.title}{warned}", to=section.id)

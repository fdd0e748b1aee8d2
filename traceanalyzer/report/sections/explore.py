"""The section Explore: everything, in tabs that share a selection."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.model.blocks import Section, Tabs
from traceanalyzer.report.sections.memory import memory_tab
from traceanalyzer.report.sections.ops import ops_tab
from traceanalyzer.report.sections.scopes import scopes_tab
from traceanalyzer.report.sections.steps_and_input import steps_tab
from traceanalyzer.report.sections.timeline import timeline_tab
from traceanalyzer.report.sections.transfers import transfers_tab

if TYPE_CHECKING:
    from traceanalyzer.model import Report
    from traceanalyzer.report.page_facts import PageFacts


def explore(facts: PageFacts, report: Report) -> Section | None:
    """Return the section; None if nothing was recorded."""
    run = facts.run
    tabs = (
        timeline_tab(facts.diagnosis),
        ops_tab(facts.diagnosis, facts.changes),
        transfers_tab(run, report.transfer_graph, report.round_trips),
        scopes_tab(run),
        steps_tab(facts.devices, report.steps, report.timeline, report.input_pipeline),
        memory_tab(report.memory),
    )
    known = tuple(tab for tab in tabs if tab is not None)
    if not known:
        return None
    return Section(id="explore", title="Explore", blocks=(Tabs(tabs=known),))

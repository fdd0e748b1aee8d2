"""Builds the page of a diagnosis: all sections, from top to bottom."""

from collections.abc import Callable, Iterator, Sequence

from traceanalyzer.attribution import contained
from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.format import counted
from traceanalyzer.model import Report
from traceanalyzer.model import blocks as b
from traceanalyzer.model.changes import Change
from traceanalyzer.report.about import about
from traceanalyzer.report.advice import to_do
from traceanalyzer.report.answer import facts_of_the_bar, happened
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
    diagnosis: Diagnosis,
    found: Sequence[Change] = (),
    report: Report | None = None,
    failed_parts: dict[str, str] | None = None,
) -> b.Page:
    """Return the page of a diagnosed run. Without `report`, it has no "Explore" section.

    A section that raises an error is left out, added to `failed_parts`, and listed as a limit.
    """
    failed = {} if failed_parts is None else failed_parts
    facts = PageFacts(diagnosis=diagnosis, changes=tuple(found), failed_parts=failed)
    run = diagnosis.run
    explored: b.Section | None = None
    details: dict[str, tuple[b.Block, ...]] = {}
    if report is not None:
        explored = explore(facts, report)
        with contained("the list of single ops", failed):
            details = op_details(facts)
    makers = {
        "the bar of placements": placement_bar,
        "the step bar": step_bar,
        "the list of changes": changes,
        "the changes": cards,
    }
    *above, shown = (_section(name, make, facts) for name, make in makers.items())
    # The others name the sections that failed.
    made = (*above, folds(facts), shown, explored, about(run, facts.health))
    sections = tuple(section for section in made if section is not None)
    return b.Page(
        kind=facts.kind,
        title=f"{run.name or run.path_name} - traceanalyzer",
        facts=facts_of_the_bar(facts),
        links=tuple(_links(sections, facts)),
        happened=happened(facts),
        next=to_do(facts),
        sections=sections,
        details=details,
    )


def _section(
    name: str, make: Callable[[PageFacts], b.Section | None], facts: PageFacts
) -> b.Section | None:
    with contained(name, facts.failed_parts):
        return make(facts)
    return None


def explore(facts: PageFacts, report: Report) -> b.Section | None:
    """Return the "Explore" section with its tabs, or None if nothing was recorded."""
    run = facts.run
    makers: dict[str, Callable[[], b.Tab | None]] = {
        "timeline": lambda: timeline_tab(facts.diagnosis),
        "ops": lambda: ops_tab(facts),
        "transfers": lambda: transfers_tab(run, report.transfer_graph, report.round_trips),
        "scopes": lambda: scopes_tab(run),
        "steps": lambda: steps_tab(facts.devices, report.steps, report.input_pipeline),
        "memory": lambda: memory_tab(report.memory),
    }
    tabs: list[b.Tab] = []
    for name, make in makers.items():
        with contained(f"the tab of {name}", facts.failed_parts):
            tabs += filter(None, [make()])
    if not tabs:
        return None
    return b.Section(id="explore", title="Explore", blocks=(b.Tabs(tabs=tuple(tabs)),))


def _links(sections: Sequence[b.Section], facts: PageFacts) -> Iterator[b.Link]:
    for section in sections:
        if section.id == "changes":
            yield b.Link(text=f"Changes {len(facts.changes)}", to=section.id)
        for block in section.blocks:
            for tab in block.tabs if isinstance(block, b.Tabs) else ():
                yield b.Link(text=tab.title, to=tab.id)
        if section.id == "about":
            severe = [e for e in facts.health if e.severity != "info"]
            warned = f" ({counted(len(severe), 'warning')})" if severe else ""
            yield b.Link(text=f"{section.title}{warned}", to=section.id)

"""States on the first screen what the trace or the report lacks."""

from typing import Final

from traceanalyzer.format import counted
from traceanalyzer.model.blocks import Text
from traceanalyzer.profiler_messages import profiler_messages
from traceanalyzer.report import text as t
from traceanalyzer.report.page_facts import PageFacts

_LARGE_HOLES: Final = frozenset({"session_graphs"})  # warnings
_LED_WITH: Final = frozenset({"xspace_error"})  # by `reported`


def reported(facts: PageFacts) -> Text:
    """Return what the profiler itself reported, what that means, and what to do."""
    messages = profiler_messages(facts.run)
    if not messages:
        return ()
    first, more = messages[0], len(messages) - 1
    host = f" on {first.host}" if len(facts.run.hosts) > 1 else ""
    others = f", and {counted(more, 'other message')}" if more else ""
    said = f'"{first.text}"{others}'
    if first.no_gpu_work:
        what = f"The GPU's work was not recorded{host}: {first.means} ({said}). "
        return (f"{what}So the trace does not show what a step costs or what the GPU waited for. ",)
    if first.means:
        return (*t.prose(f"{t.sentence(first.means)[:-1]}{host} ({said}). {first.fix}"), " ")
    return (f"The profiler reported{host}: {said}. ",)


def lost(facts: PageFacts) -> Text:
    """Return the most severe limit of the trace, if a part of it is missing."""
    errors = [e for e in facts.health if e.severity == "error" and e.id not in _LED_WITH]
    found = errors + [e for e in facts.health if e.id in _LARGE_HOLES]
    if not found:
        return ()
    more = f" (and {counted(len(found) - 1, 'other problem')})" if len(found) > 1 else ""
    prefix = f"{facts.run.hosts[0].name}: " if len(facts.run.hosts) == 1 else ""
    said = found[0].message.removeprefix(prefix).partition(";")[0]
    return (f" This report is incomplete{more}: ", *t.prose(f"{said}."))

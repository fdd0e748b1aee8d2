"""The causes. Each public module here defines one, and is found automatically: see `Cause`."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from traceanalyzer.causes._cause import BlockedOps, Cause, CauseMatch, FindingText

__all__ = ["BlockedOps", "Cause", "CauseMatch", "FindingText", "all_causes", "cause_title"]


def all_causes() -> tuple[Cause, ...]:
    """Return all causes, sorted by id."""
    found = (each.name for each in iter_modules(__path__) if not each.ispkg)
    names = sorted(name for name in found if not name.startswith("_"))
    return tuple(Cause.of(import_module(f"{__name__}.{name}")) for name in names)


@cache
def cause_title(cause_id: str) -> str:
    """Return the title of a cause, given its id (`CAUSE`, or `CAUSE/CASE`)."""
    titles = {cause.id: cause.title for cause in all_causes()}
    return titles.get(cause_id.partition("/")[0], cause_id)

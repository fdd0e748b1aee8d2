"""The causes, one per module. Public modules here define `CAUSE` and are found automatically."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from traceanalyzer.causes._cause import BlockedOps, Cause, CauseMatch, FindingText

__all__ = ["BlockedOps", "Cause", "CauseMatch", "FindingText", "all_causes", "cause_title"]


def all_causes() -> tuple[Cause, ...]:
    """Return all causes, sorted by id."""
    modules = [
        import_module(f"{__name__}.{found.name}")
        for found in iter_modules(__path__)
        if not found.ispkg and not found.name.startswith("_")
    ]
    return tuple(sorted((m.CAUSE for m in modules), key=lambda cause: cause.id))


@cache
def cause_title(cause_id: str) -> str:
    """Return the title of a cause, given its id (`CAUSE`, or `CAUSE/CASE`)."""
    titles = {cause.id: cause.title for cause in all_causes()}
    return titles.get(cause_id.partition("/")[0], cause_id)

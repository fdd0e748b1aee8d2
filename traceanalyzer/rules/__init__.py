"""The causes, one a file. A module here that defines `RULE` is a rule: no list names it."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from traceanalyzer.rules._rule import BlockerExample, CapturedExample, Example, Mark, Rule, Words

__all__ = ["BlockerExample", "CapturedExample", "Example", "Mark", "Rule", "Words", "all_rules"]


def all_rules() -> tuple[Rule, ...]:
    """Return every rule, in order of id."""
    modules = [
        import_module(f"{__name__}.{found.name}")
        for found in iter_modules(__path__)
        if not found.name.startswith("_")
    ]
    return tuple(sorted((m.RULE for m in modules), key=lambda rule: rule.id))

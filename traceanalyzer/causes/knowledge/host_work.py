"""Ops whose work belongs on the host, such as files and strings: `data/host_work.toml`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from traceanalyzer.causes.knowledge.tables import read
from traceanalyzer.model import Fix
from traceanalyzer.placement.kernel_types import definition_of


@dataclass(frozen=True, slots=True, kw_only=True)
class HostWork:
    """Ops whose work belongs on the host; see the file for the fields."""

    id: str
    why: str
    fix: str
    source: str
    ops: str = ""
    uses_strings: bool = False
    code: str | None = None
    in_libraries: bool = False

    def matches(self, op: str) -> bool:
        """Return whether an op type is one of these."""
        if self.uses_strings:
            definition = definition_of(op)
            arguments = () if definition is None else (*definition.inputs, *definition.outputs)
            return any(argument.type == "string" for argument in arguments)
        return re.fullmatch(self.ops, op) is not None

    @property
    def as_fix(self) -> Fix:
        """What to do."""
        return Fix(text=self.fix, code=self.code)


_ENTRIES: Final = read("host_work", HostWork)


def host_work(op: str) -> HostWork | None:
    """Return why an op's work belongs on the host, or None if it does not."""
    return next((entry for entry in _ENTRIES if entry.matches(op)), None)


def host_work_named(name: str) -> HostWork:
    """Return an entry by its id."""
    return next(entry for entry in _ENTRIES if entry.id == name)

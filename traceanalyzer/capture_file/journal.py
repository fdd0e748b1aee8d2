"""Reads what the recorder wrote down while the script ran: `journal.jsonl`, a record a line."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.capture_file.document import Json

_REPEATED: Final = frozenset(
    {"session", "session_config", "function", "error", "visibility", "note"}
)
_LAST_COUNTS: Final = frozenset(
    {"started", "attached", "environment", "devices", "kernels", "eager", "finished"}
)


@dataclass(kw_only=True)
class Journal:
    """The records of a journal."""

    #: Those of the kinds that recur, in order.
    many: dict[str, list[dict[str, Json]]] = field(default_factory=lambda: defaultdict(list))
    #: The last one of each other kind: what came before it is contained in it.
    last: dict[str, dict[str, Json]] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)  #: of kinds that are not known here
    broken: int = 0  #: lines that are no records, but for a last line that was cut off


def read_journal(path: Path) -> Journal:
    """Read a journal; a script may be killed at any moment, so it may end anywhere."""
    journal = Journal()
    try:
        lines = path.open("rb")
    except OSError:
        return journal
    with lines:
        for line in lines:
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):  # ValueError: no JSON, no UTF-8, a huge number
                found = None
            kind = found.get("kind") if isinstance(found, dict) else None
            if not isinstance(kind, str):
                journal.broken += line.endswith(b"\n") and not line.isspace()
            elif kind in _REPEATED:
                journal.many[kind].append(found)
            elif kind in _LAST_COUNTS:
                journal.last[kind] = found
            else:
                journal.unknown[kind] += 1
    return journal

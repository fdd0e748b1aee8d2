"""Reads what the recorder wrote down while the script ran: `journal.jsonl`, a record a line."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.capture_file.document import Json

__all__ = ["Journal", "read_journal"]

_REPEATED: Final = frozenset(
    {"session", "session_config", "function", "error", "visibility", "note"}
)
_LAST_COUNTS: Final = frozenset(
    {"started", "attached", "environment", "devices", "kernels", "eager", "finished"}
)


@dataclass(frozen=True, kw_only=True)
class Journal:
    """The records of a journal.

    Attributes:
        many: The records of the kinds that recur, in order: session, session_config, function,
            error, visibility, note.
        last: The last record of each other kind: what came before it is contained in it.
        unknown: How many records there were of kinds that are not known here.
        broken: How many lines are no records; a last line that was cut off is not counted.
    """

    many: dict[str, list[dict[str, Json]]] = field(default_factory=lambda: defaultdict(list))
    last: dict[str, dict[str, Json]] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)
    broken: int = 0


def read_journal(path: Path) -> Journal:
    """Read a journal; a script may be killed at any moment, so it may end anywhere.

    Args:
        path: The file; it may be missing.
    """
    journal = Journal()
    broken = 0
    try:
        file = path.open("rb")
    except OSError:
        return journal
    with file:
        for line in file:
            record = _record(line)
            kind = None if record is None else record.get("kind")
            if record is None or not isinstance(kind, str):
                broken += line.endswith(b"\n") and not line.isspace()
            elif kind in _REPEATED:
                journal.many[kind].append(record)
            elif kind in _LAST_COUNTS:
                journal.last[kind] = record
            else:
                journal.unknown[kind] += 1
    return Journal(many=journal.many, last=journal.last, unknown=journal.unknown, broken=broken)


def _record(line: bytes) -> dict[str, Json] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):  # ValueError: no JSON, no UTF-8, a huge number
        return None
    return record if isinstance(record, dict) else None

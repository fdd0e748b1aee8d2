"""Reads the recorder's journal of a script, `journal.jsonl`, with one record per line."""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from traceanalyzer.capture_file.document import Json

_RECURRING: Final = frozenset(
    {
        *("session", "session_config", "frames", "scopes", "function", "tracing", "error"),
        *("visibility", "note"),
    }
)


@dataclass(kw_only=True)
class Journal:
    """The records of a journal."""

    #: The records of each kind that recurs, in order.
    many: dict[str, list[dict[str, Json]]] = field(default_factory=lambda: defaultdict(list))
    #: The last record of each other kind, which includes the earlier ones.
    last: dict[str, dict[str, Json]] = field(default_factory=dict)
    broken: int = 0  #: lines that are not records, without a last line that was cut off


def _float(name: str) -> dict[str, str]:
    """Encode NaN or an infinity as in capture files, such as `{"float": "nan"}`."""
    return {"float": str(float(name))}


def read_journal(path: Path) -> Journal:
    """Read a journal, which may be cut off anywhere if the script was killed."""
    journal = Journal()
    try:
        lines = path.open("rb")
    except OSError:
        return journal
    with lines:
        for line in lines:
            try:
                found = json.loads(line, parse_constant=_float)
            except (ValueError, RecursionError):  # ValueError: no JSON, no UTF-8, a huge number
                found = None
            kind = found.get("kind") if isinstance(found, dict) else None
            if not isinstance(kind, str):
                journal.broken += line.endswith(b"\n") and not line.isspace()
            elif kind in _RECURRING:
                journal.many[kind].append(found)
            else:
                journal.last[kind] = found
    return journal

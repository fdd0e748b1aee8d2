"""What the recorder wrote down, as far as the launcher needs it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_journal"]

_WANTED = frozenset({"started", "attached", "environment", "session", "note", "finished"})


def read_journal(file: Path) -> list[dict[str, Any]]:
    """Return the records that say how the recording went, in their order.

    What cannot be read is left out: a script that was killed leaves half a line.
    """
    records = []
    try:
        with file.open("rb") as stream:
            for line in stream:
                try:
                    record = json.loads(line)
                except ValueError:
                    continue
                if isinstance(record, dict) and record.get("kind") in _WANTED:
                    records.append(record)
    except OSError:
        pass
    return records

"""What readers accepted, and until when: the `acceptances.json` that a report's page writes.

The file is a list of `{"id", "reason", "until"}`: the id of a finding, why it may stay as it is,
and the last day on which that holds, as `2027-01-31`, or null. Ids are the same in every report of
the same program, so that an acceptance holds for the next run too.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.errors import AcceptancesError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Acceptance", "load_acceptances"]

_KEYS: Final = frozenset({"id", "reason", "until"})
_MUST: Final = frozenset({"id", "reason"})
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """A finding that may stay as it is.

    Attributes:
        id: The finding's.
        reason: Why, in the reader's words; never empty.
        until: The last day on which it holds; None where it has no end.
    """

    id: str
    reason: str
    until: date | None = None

    def has_expired(self, today: date) -> bool:
        """Returns whether it holds no longer on a day."""
        return self.until is not None and self.until < today


def load_acceptances(path: Path) -> tuple[Acceptance, ...]:
    """Reads a file of acceptances, those that have expired too.

    Args:
        path: The file.

    Returns:
        The acceptances in the file's order.

    Raises:
        AcceptancesError: It cannot be read, is no such list, or names a finding twice. What is
            misspelt is refused: an end that is not seen would make an acceptance last for ever.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror or error}"
        raise AcceptancesError(msg) from error
    except (ValueError, RecursionError) as error:
        msg = f"{path} is no JSON: write it with 'Save acceptances' in a report"
        raise AcceptancesError(msg) from error
    if not isinstance(found, list):
        msg = f"{path} holds no list of acceptances: write it with 'Save acceptances' in a report"
        raise AcceptancesError(msg)
    accepted = tuple(_acceptance(entry, f"{path}, entry {n}") for n, entry in enumerate(found, 1))
    seen: set[str] = set()
    for n, entry in enumerate(accepted, 1):
        if entry.id in seen:
            msg = f"{path}, entry {n}: {entry.id!r} stands there twice: leave one of them out"
            raise AcceptancesError(msg)
        seen.add(entry.id)
    return accepted


def _acceptance(entry: Any, place: str) -> Acceptance:  # noqa: ANN401 - whatever JSON holds
    if not isinstance(entry, dict):
        msg = f"{place}: not an object with id, reason and until"
        raise AcceptancesError(msg)
    wrong = sorted(map(repr, entry.keys() - _KEYS))
    missing = sorted(_MUST - entry.keys())
    if wrong or missing:
        fault = f"unknown key {wrong[0]}" if wrong else f"no {missing[0]}"
        msg = f"{place}: {fault}; an acceptance has id, reason and, if it ends, until"
        raise AcceptancesError(msg)
    return Acceptance(
        id=_text(entry["id"], "id", place),
        reason=_text(entry["reason"], "reason", place),
        until=_day(entry.get("until"), place),
    )


def _text(value: object, key: str, place: str) -> str:
    if isinstance(value, str) and value.strip():
        return value
    msg = f"{place}: its {key} is not a text, or an empty one"
    raise AcceptancesError(msg)


def _day(value: object, place: str) -> date | None:
    if value is None:
        return None
    try:
        if isinstance(value, str) and _DAY.fullmatch(value):
            return date.fromisoformat(value)
    except ValueError:
        pass
    msg = f"{place}: until {value!r} is no day; write it as 2027-01-31, or null where it has no end"
    raise AcceptancesError(msg)

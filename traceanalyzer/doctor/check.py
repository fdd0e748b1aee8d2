"""The checks in the doctor's checklist, with texts from `data/checks.toml`."""

from dataclasses import dataclass
from typing import Literal

from traceanalyzer.doctor.knowledge import table

Status = Literal["ok", "obstacle", "warning", "note", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Check:
    """The result of one check of the machine."""

    id: str
    group: str
    status: Status
    text: str  #: a clause
    how: str  #: how it was found out
    fix: str = ""
    command: str = ""
    source: str = ""


def found(check: str, **fields: object) -> Check:
    """Return a check with `fields` filled into its texts."""
    texts = {key: text.format(**fields) for key, text in table("checks")[check].items()}
    return Check(id=check, **texts)

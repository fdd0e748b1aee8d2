"""A check of the machine, with its texts and what the doctor knows in `data/*.toml`."""

from dataclasses import dataclass
from typing import Any, Literal

from traceanalyzer.data_files import toml

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


def table(name: str) -> dict[str, Any]:
    """Return the content of a file in `data/`; each entry names its source."""
    return toml(f"doctor/data/{name}.toml")

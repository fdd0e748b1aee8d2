"""Where things are at home on the page: the anchors that links lead to."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING
from urllib.parse import quote

from traceanalyzer.report.views.findings import FINDINGS_IN_FULL, numbered_findings, ops_listed
from traceanalyzer.report.views.grids import ROWS_SHOWN
from traceanalyzer.report.views.ops import ops_grid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from traceanalyzer.model import Cell, OpRef, Report

__all__ = ["Home", "fragment", "homes"]

_LONGEST_KEY = 200


def fragment(kind: str, key: str) -> str:
    """Returns the anchor of a finding or an op: the same in every report of the same program."""
    key = quote(key, safe="", errors="surrogatepass")
    if len(key) > _LONGEST_KEY:  # none of ours is
        key = f"{key[:_LONGEST_KEY]}-{sha256(key.encode('ascii')).hexdigest()[:12]}"
    return f"{kind}-{key}"


@dataclass(frozen=True)
class Home:
    """Where an op is at home on the page: a place and a row in it."""

    place: str
    row: int


def homes(report: Report) -> dict[str, Home]:
    """Returns for each op the one row that bears its anchor: an id stands once in a page."""
    found: dict[str, Home] = {}
    for place, keys in _places(report):
        for row, key in enumerate(keys):
            if isinstance(key, str):
                found.setdefault(key, Home(place, row))
    return found


def _places(report: Report) -> Iterator[tuple[str, Iterable[Cell]]]:
    yield "ops", [row.get("op_id") for row in ops_grid(report).rows]
    yield "unexplained", _keys(report.unexplained.ops)
    limit = ops_listed(report)
    for numbered in numbered_findings(report)[:FINDINGS_IN_FULL]:
        yield f"finding-{numbered.label}", _keys(numbered.finding.ops, limit)
        yield f"dragged-{numbered.label}", _keys(numbered.finding.dragged_along, limit)


def _keys(ops: Sequence[OpRef], limit: int = ROWS_SHOWN) -> list[Cell]:
    return [op.op_id for op in ops[:limit]]

"""Trim a report to the page size limit, and record what was left out.

Templates limit tables and lists. If a page is still too large, lists and texts are cut in rounds,
each leaving less.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, is_dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from traceanalyzer.model import PackedTable, Report, Table
from traceanalyzer.model.resources import AllocatorMemory
from traceanalyzer.model.times import EventTimeline
from traceanalyzer.model.transfers import GroupCopies

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST: Final = 5_000_000
"""Bytes of a page, at most."""

_KEYS: Final = frozenset({"id", "op_id", "finding_id", "node", "source", "target"})
_LONGEST_KEY: Final = 160
_PHASES: Final = 20  # as many as there are of them, and some more
_WORDS: Final = {
    "edges": "edges of copies",
    "between": "other ops of round trips",
    "critical_path": "critical paths",
    "dragged_along": "ops dragged along",
    "evidence": "pieces of evidence",
    "health": "remarks on trace health",
    "holders": "what held memory",
    "nodes": "ends of copies",
    "ops": "ops of findings and round trips",
    "rows": "rows of tables",
    "ruled_out": "causes ruled out",
    "to_cpu": "ops to move to the CPU",
    "to_gpu": "ops to move to the GPU",
}


@dataclass(frozen=True)
class _Limits:
    """What a round leaves."""

    entries: int  # of a list of the document itself
    inner: int  # of a list within these
    rows: int  # of a table
    characters: int  # of a text


# With the first two there is room for what scripts read, as this tool packs it.
_GENTLE: Final = (_Limits(200, 6, 1000, 300), _Limits(50, 4, 1000, 200))
_HARD: Final = (_Limits(30, 3, 200, 120), _Limits(8, 2, 20, 80))
_MOST_EVENT_BYTES: Final = 3_000_000  # beyond these, another tool packed them
_MOST_OP_BYTES: Final = 2_000_000
_EVENTS: Final = "the events of the timeline (its picture is here)"
_OPS: Final = "the table of all ops (the most expensive are here)"


@dataclass(frozen=True)
class Shown:
    """What a page is made of."""

    report: Report
    has_events: bool = True  # the timeline has its events, for scripts
    left_out: tuple[str, ...] = ()  # in words


def rounds(report: Report) -> Iterator[Shown]:
    """Yield the document, and then less and less of it."""
    trace, ops = report.trace, report.tables.all_ops
    events = 0 if trace is None else len(trace.events.data) + len(trace.names.data)
    packed = _Packed(
        has_events=trace is not None and events <= _MOST_EVENT_BYTES,
        has_ops=ops is not None and len(ops.data) <= _MOST_OP_BYTES,
    )
    yield packed.shown(report, ())
    for limits in _GENTLE:
        less, cut = _cut(report, limits)
        yield packed.shown(less, cut)
    if packed.has_events:
        packed = replace(packed, has_events=False)
        yield packed.shown(less, cut)
    if packed.has_ops:
        packed = replace(packed, has_ops=False)
        yield packed.shown(less, cut)
    for limits in _HARD:
        less, cut = _cut(report, limits)
        yield packed.shown(less, cut)
    # Nothing but what was found: this is small whatever there was.
    bare = replace(less, trace=None, scopes=None, copy_graph=None, memory=None, steps=None)
    yield packed.shown(bare, (*cut, "pictures and tables of several sections"))


@dataclass(frozen=True)
class _Packed:
    """Which of the large tables a page holds."""

    has_events: bool
    has_ops: bool

    def shown(self, report: Report, cut: tuple[str, ...]) -> Shown:
        left_out = list(cut)
        if report.trace is not None and not self.has_events:
            left_out.append(_EVENTS)
        if report.tables.all_ops is not None and not self.has_ops:
            report = replace(report, tables=replace(report.tables, all_ops=None))
            left_out.append(_OPS)
        return Shown(report, has_events=self.has_events, left_out=tuple(left_out))


class _Cutter:
    """Cut records, and counts what it left out of each of their lists."""

    def __init__(self, limits: _Limits) -> None:
        self.limits = limits
        self.entries: Counter[str] = Counter()
        self.texts = 0

    def record(self, record: Any, depth: int) -> Any:  # noqa: ANN401 - any record of the document
        if isinstance(record, PackedTable | EventTimeline):
            return record  # as large as they are: they are left out as a whole
        if isinstance(record, Table):
            return self.table(record)
        if isinstance(record, AllocatorMemory) and len(record.timeline.rows) > self.limits.rows:
            # A line without its end would show another peak.
            record = replace(record, timeline=replace(record.timeline, rows=()))
        changed: dict[str, Any] = {}
        for field in fields(record):
            value = getattr(record, field.name)
            less = self.value(field.name, value, depth)
            if less is not value:
                changed[field.name] = less
        return replace(record, **changed, **_totals(record, changed)) if changed else record

    def value(self, name: str, value: Any, depth: int) -> Any:  # noqa: ANN401
        if isinstance(value, str):
            return self.text(name, value)
        if isinstance(value, tuple):
            return self.entries_of(name, value, depth)
        return self.record(value, depth) if is_dataclass(value) else value

    def entries_of(self, name: str, value: tuple[Any, ...], depth: int) -> tuple[Any, ...]:
        # Groups and flows of copies point at each other by their places.
        by_place = name in {"sources", "targets"} or isinstance((*value, None)[0], GroupCopies)
        # The deeper a list, the more of them there are; phases add up to a whole.
        inner = _PHASES if name == "phases" else max(1, self.limits.inner >> max(0, depth - 1))
        most = self.limits.entries if depth == 0 or by_place else inner
        if by_place:
            return () if len(value) > most else value
        kept = value[:most]
        if len(kept) < len(value):
            self.entries[name] += len(value) - len(kept)
        less = tuple(self.value(name, item, depth + 1) for item in kept)
        is_same = len(less) == len(value) and all(a is b for a, b in zip(less, value, strict=True))
        return value if is_same else less

    def table(self, table: Table) -> Table:
        kept = table.rows[: self.limits.rows]
        self.entries["rows"] += len(table.rows) - len(kept)
        rows = tuple(
            tuple(
                self.text(name, cell) if isinstance(cell, str) else cell
                for name, cell in zip(table.columns, row, strict=True)
            )
            for row in kept
        )
        return table if rows == table.rows else replace(table, rows=rows)

    def text(self, name: str, text: str) -> str:
        if name in _KEYS:  # a key that other records refer to: it must stay distinct
            if len(text) <= _LONGEST_KEY:
                return text
            code = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
            return f"{text[: _LONGEST_KEY // 2]}…{code}"
        if len(text) <= self.limits.characters:
            return text
        self.texts += 1
        half = self.limits.characters // 2
        if name == "code":  # from its begin on: a line in two is no line
            return f"{text[: 2 * half].rpartition(chr(10))[0] or text[: 2 * half]}\n…"
        return f"{text[:half]}…{text[-half:]}"

    def left_out(self) -> tuple[str, ...]:
        """Return what was left out, in words."""
        parts = [
            f"{number:,} {_WORDS.get(name) or name.replace('_', ' ')}"
            for name, number in self.entries.most_common()
            if number
        ]
        if self.texts:
            parts.append(f"the middle of {self.texts:,} texts")
        return tuple(parts)


def _totals(record: Any, changed: dict[str, Any]) -> dict[str, int]:  # noqa: ANN401
    """Return the totals of the lists that were cut."""
    names = {field.name for field in fields(record)}
    return {
        f"{name}_total": max(getattr(record, f"{name}_total") or 0, len(getattr(record, name)))
        for name in changed
        if f"{name}_total" in names and isinstance(changed[name], tuple)
    }


def _cut(report: Report, limits: _Limits) -> tuple[Report, tuple[str, ...]]:
    cutter = _Cutter(limits)
    less = cutter.record(report, 0)
    return less, cutter.left_out()

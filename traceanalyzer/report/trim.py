"""Make a page smaller, and record what it leaves out.

The large blocks keep to a size of their own, so that the first rule mostly suffices. What remains
is for runs with very many findings or very long names.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from traceanalyzer.model.blocks import BigTable, Chart, Code, Flows, Icicle, Note, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.model.blocks import Page

#: Fields that hold a list of any length.
_LISTS: Final = frozenset({"rows", "items", "lines", "blocks", "sections", "tabs", "ids", "also"})
#: Fields that others refer to: they must stay distinct.
_KEYS: Final = frozenset({"id", "ids", "to", "op_id", "name", "key", "data"})
_WHERE: Final[dict[type, tuple[str, str]]] = {
    Timeline: ("the timeline", "traceanalyzer tables PATH -o DIR"),
    BigTable: ("the table of all ops", "traceanalyzer tables PATH -o DIR"),
    Icicle: ("the tree of name scopes", "traceanalyzer report PATH --json FILE"),
    Flows: ("the picture of transfers", "traceanalyzer tables PATH -o DIR"),
    Chart: ("charts", "traceanalyzer report PATH --json FILE"),
}
_REST: Final = "All of it: traceanalyzer report PATH --json FILE"


@dataclass(frozen=True)
class _Rule:
    """What a page may hold."""

    entries: int  # of a list
    characters: int  # of a text
    drawers: int  # of ops
    dropped: tuple[type, ...] = ()  # kinds of blocks


_RULES: Final = (
    _Rule(entries=200, characters=1_000, drawers=100),
    _Rule(entries=60, characters=300, drawers=0),
    _Rule(entries=60, characters=300, drawers=0, dropped=(Timeline,)),
    _Rule(entries=30, characters=200, drawers=0, dropped=tuple(_WHERE)),
    _Rule(entries=8, characters=100, drawers=0, dropped=tuple(_WHERE)),
)


def smaller(page: Page) -> Iterator[Page]:
    """Yield the page, and then less and less of it."""
    yield page
    for rule in _RULES:
        yield _Trimmer(rule).page(page)


class _Trimmer:
    """Applies a rule, and counts what it leaves out."""

    def __init__(self, rule: _Rule) -> None:
        self._rule = rule
        self._entries = 0
        self._texts = 0
        self._blocks: Counter[type] = Counter()

    def page(self, page: Page) -> Page:
        """Return the page with less in it, and with what is left out."""
        details = dict(list(page.details.items())[: self._rule.drawers])
        trimmed = self._value("", msgspec.structs.replace(page, details={}))
        details = {op_id: self._value("blocks", blocks) for op_id, blocks in details.items()}
        left_out = [f"{_WHERE[kind][0]} (`{_WHERE[kind][1]}`)" for kind in self._blocks]
        for number, what in (
            (self._entries, "rows and entries"),
            (self._texts, "middles of long texts"),
            (len(page.details) - len(details), "details of ops"),
        ):
            if number:
                left_out.append(f"{number:,} {what}")
        said = (*page.left_out, *left_out, _REST) if left_out else page.left_out
        made: Page = msgspec.structs.replace(trimmed, details=details, left_out=said)
        return made

    def _value(self, name: str, value: Any) -> Any:  # noqa: ANN401 - any field of any block
        if isinstance(value, str):
            return value if name in _KEYS else self._text(value)
        if isinstance(value, tuple):
            kept = value[: self._rule.entries] if name in _LISTS else value
            if name == "ids":
                return kept
            self._entries += len(value) - len(kept)
            return tuple(self._value("" if name in _LISTS else name, item) for item in kept)
        if isinstance(value, self._rule.dropped):
            kind: type = type(value)
            self._blocks[kind] += 1
            what, command = _WHERE[kind]
            said = f"This page has no room for {what}. To write all of it: "
            return Note(text=(said, Code(text=command)))
        if isinstance(value, msgspec.Struct):
            fields = {f: self._value(f, getattr(value, f)) for f in value.__struct_fields__}
            return type(value)(**fields)
        return value

    def _text(self, text: str) -> str:
        if len(text) <= self._rule.characters:
            return text
        self._texts += 1
        half = self._rule.characters // 2
        return f"{text[:half]}…{text[-half:]}"

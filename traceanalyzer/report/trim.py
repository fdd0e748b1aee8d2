"""Make a page smaller, and record what was left out.

The large blocks limit their own size, so that the first rule mostly suffices. The other rules are
for runs with very many findings or very long names.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from traceanalyzer.model.blocks import BigTable, Chart, Code, Flows, Icicle, Note, Timeline

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.model.blocks import Page

#: Fields that hold a list of any length.
_LISTS: Final = frozenset({"rows", "items", "lines", "blocks", "sections", "tabs", "ids", "also"})
#: Fields that others refer to: they must stay distinct.
_KEYS: Final = frozenset({"id", "ids", "to", "op_id", "name", "key", "data"})
_TABLES: Final = "traceanalyzer tables PATH -o DIR"
_JSON: Final = "traceanalyzer report PATH --json FILE"
_DROPPED: Final[dict[type, tuple[str, str]]] = {
    Timeline: ("the timeline", _TABLES),
    BigTable: ("the table of all ops", _TABLES),
    Icicle: ("the tree of name scopes", _JSON),
    Flows: ("the picture of transfers", _TABLES),
    Chart: ("charts", _JSON),
}


class _Rule(NamedTuple):
    """Limits of a page."""

    entries: int  # of a list
    characters: int  # of a text
    drawers: int = 0  # of ops
    dropped: tuple[type, ...] = ()  # kinds of blocks


_RULES: Final = (
    _Rule(entries=200, characters=1_000, drawers=100),
    _Rule(entries=60, characters=300, dropped=(Timeline,)),
    _Rule(entries=30, characters=200, dropped=tuple(_DROPPED)),
    _Rule(entries=8, characters=100, dropped=tuple(_DROPPED)),
)


def smaller(page: Page) -> Iterator[Page]:
    """Yield the page, and then smaller and smaller versions of it."""
    yield page
    for rule in _RULES:
        left_out: Counter[str] = Counter()
        details = dict(list(page.details.items())[: rule.drawers])
        left_out["details of ops"] += len(page.details) - len(details)
        trimmed: Page = _trimmed(rule, left_out, "", msgspec.structs.replace(page, details={}))
        details = {key: _trimmed(rule, left_out, "blocks", of) for key, of in details.items()}
        said = [what if "(`" in what else f"{n:,} {what}" for what, n in left_out.items() if n]
        said += [f"All of it: {_JSON}"] if said else []
        yield msgspec.structs.replace(trimmed, details=details, left_out=(*page.left_out, *said))


def _trimmed(rule: _Rule, left_out: Counter[str], name: str, value: Any) -> Any:  # noqa: ANN401
    """Return the value of a block's field, shortened by the rule, and count the omissions."""
    if isinstance(value, str) and name not in _KEYS and len(value) > rule.characters:
        left_out["middles of long texts"] += 1
        half = rule.characters // 2
        return f"{value[:half]}…{value[-half:]}"
    if isinstance(value, tuple):
        kept = value[: rule.entries] if name in _LISTS else value
        if name == "ids":
            return kept
        left_out["rows and entries"] += len(value) - len(kept)
        inner = "" if name in _LISTS else name
        return tuple(_trimmed(rule, left_out, inner, item) for item in kept)
    if isinstance(value, rule.dropped):
        what, command = _DROPPED[type(value)]
        left_out[f"{what} (`{command}`)"] += 1
        said = f"This page has no room for {what}. To write all of it: "
        return Note(text=(said, Code(text=command)))
    if isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
        fields = {field: _trimmed(rule, left_out, field, getattr(value, field)) for field in names}
        return type(value)(**fields)
    return value

"""The facts in a `report.json`, and the differences between two of them.

A fact is a value and its path in the document, such as `findings/no_gpu_kernel.Unique/certainty`.
Entries of lists are named after their subject, so their order does not matter. Texts and drawn
events are left out.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

__all__ = ["Difference", "differences", "facts"]

_WORDS: Final = frozenset(
    {
        *("answer", "because", "code", "label", "message", "note", "question", "reason"),
        *("remarks", "text", "title", "tool", "verdict", "why"),
    }
)
_DRAWN: Final = frozenset({"event_lanes", "name_scopes", "page", "picture"})
_ABOUT: Final = ("op_id", "step", "cause", "sub_reason", "id", "phase", "name", "kind")
_TABLE: Final = frozenset({"columns", "rows", "total_rows"})
_NEARLY: Final = 1e-9  # what another order of a sum may change


class Difference(NamedTuple):
    """A fact that two documents do not share; None on the side that lacks it.

    If a whole entry is missing in one of them, the path is that of the entry.
    """

    path: str
    base: Any
    new: Any


def facts(document: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Return all facts of a document, by path."""
    return dict(_walk(document, ""))


def differences(base: Mapping[str, Any], new: Mapping[str, Any]) -> list[Difference]:
    """Return the differences between the facts of two documents."""
    found: dict[str, Difference] = {}
    for path in base.keys() & new.keys():
        if not _is_same(base[path], new[path]):
            found[path] = Difference(path, base[path], new[path])
    for one, other, is_base in ((base, new, True), (new, base, False)):
        lacking = one.keys() - other.keys()
        there = {part for path in other for part in _upwards(path)} if lacking else ()
        for path in lacking:
            entry = next((part for part in _upwards(path) if part not in there), path)
            value = one[path] if entry == path else "..."
            found[entry] = Difference(entry, *((value, None) if is_base else (None, value)))
    return [found[path] for path in sorted(found)]


def _upwards(path: str) -> list[str]:
    """Return a path and all above it, the shortest first."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]


def _is_same(base: object, new: object) -> bool:
    if isinstance(base, float) and isinstance(new, float):
        return math.isclose(base, new, rel_tol=_NEARLY)
    return base == new


def _walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - JSON
    if isinstance(value, dict) and value.keys() == _TABLE:
        value = _rows(value["columns"], value["rows"])
    if isinstance(value, list):
        for name, entry in zip(_names(value), value, strict=True):
            yield from _walk(entry, f"{path}/{name}")
    elif isinstance(value, dict):
        for key, entry in value.items():
            if key not in _WORDS | _DRAWN:
                yield from _walk(entry, f"{path}/{key}" if path else key)
    elif value is not None:
        yield path, value


def _rows(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _names(entries: Sequence[Any]) -> list[str]:
    """Return a name for each entry, after its subject; equal names are numbered from the second."""
    seen: Counter[str] = Counter()
    names = []
    for entry in entries:
        name = _about(entry)
        names.append(f"{name}#{seen[name]}" if seen[name] or not name else name)
        seen[name] += 1
    return names


def _about(entry: Any) -> str:  # noqa: ANN401 - JSON
    if not isinstance(entry, dict):
        return str(entry) if isinstance(entry, str) else ""
    known = [str(entry[key]) for key in _ABOUT if isinstance(entry.get(key), str | int)]
    if "cause" in entry and "ops" in entry:  # a finding: its id is made anew where ops are named so
        known = [str(entry["cause"]), str(entry.get("sub_reason"))]
        known += sorted({str(op["name"]) for op in entry["ops"]})[:1]
    return ".".join(known[:3])

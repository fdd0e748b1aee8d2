"""Reads what the recorder wrote down while the script ran: `journal.jsonl`, a record a line."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.attributes import AttributePool, finite
from traceanalyzer.capture_file.function_records import UNKNOWN, Definition

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import TypeAlias

    from traceanalyzer.capture_file.document import Json

    _Object: TypeAlias = dict[str, Json]

_REPEATED: Final = frozenset(
    {"session", "session_config", "function", "error", "visibility", "note"}
)
_LAST_COUNTS: Final = frozenset(
    {"started", "attached", "environment", "devices", "kernels", "eager", "finished"}
)


@dataclass(kw_only=True)
class Journal:
    """The records of a journal.

    Attributes:
        many: The records of the kinds that recur, in order: session, session_config, function,
            error, visibility, note.
        last: The last record of each other kind: what came before it is contained in it.
        unknown: How many records there were of kinds that are not known here.
        broken: How many lines are no records; a last line that was cut off is not counted.
    """

    many: dict[str, list[dict[str, Json]]] = field(default_factory=lambda: defaultdict(list))
    last: dict[str, dict[str, Json]] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)
    broken: int = 0


def read_journal(path: Path) -> Journal:
    """Read a journal; a script may be killed at any moment, so it may end anywhere."""
    journal = Journal()
    try:
        lines = path.open("rb")
    except OSError:
        return journal
    with lines:
        for line in lines:
            record = _record(line)
            kind = None if record is None else record.get("kind")
            if record is None or not isinstance(kind, str):
                journal.broken += line.endswith(b"\n") and not line.isspace()
            elif kind in _REPEATED:
                journal.many[kind].append(record)
            elif kind in _LAST_COUNTS:
                journal.last[kind] = record
            else:
                journal.unknown[kind] += 1
    return journal


def _record(line: bytes) -> dict[str, Json] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):  # ValueError: no JSON, no UTF-8, a huge number
        return None
    return record if isinstance(record, dict) else None


# --- Its records as the document's ----------------------------------------------------------------


class Pools:
    """Collects frames, scopes and attribute sets, each distinct one once.

    What a record holds that is not as the journal has it becomes unknown: -1, or an empty text.
    """

    def __init__(self) -> None:
        self.attributes = AttributePool()
        self.damaged = 0
        self._frames: dict[tuple[str, int, str, int], int] = {}
        self._scopes: dict[tuple[str, int, int | None], int] = {}
        self._strings: dict[str, int] = {}

    @property
    def strings(self) -> list[str]:
        """The texts of tensors."""
        return list(self._strings)

    @property
    def frames(self) -> list[Json]:
        """The frames, as the document has them."""
        return [list(frame) for frame in self._frames]

    @property
    def scopes(self) -> list[Json]:
        """The scopes, as the document has them."""
        return [[device, frame] for device, frame, _ in self._scopes]

    @property
    def origins(self) -> list[Json]:
        """The origins of the scopes, as the document has them."""
        return [origin for _, _, origin in self._scopes]

    def definition(self, record: _Object) -> Definition | None:
        """Return a journal's `function`; None if it is damaged."""
        name, nodes = record.get("name"), _texts(record.get("nodes"))
        if not isinstance(name, str) or nodes is None:
            self.damaged += 1
            return None
        frames = [self._frame(frame) for frame in _list(record.get("frames"))]
        scopes = [self._scope(scope, frames) for scope in _list(record.get("scope_pool"))]
        size = len(nodes)
        places = [_at(frames, i) for i in _list(record.get("frame"))][:size]
        libraries = [_at(frames, i) for i in _list(record.get("library"))][:size]
        stacks = [_stack(stack, scopes) for stack in _list(record.get("scopes"))][:size]
        return Definition(
            name=name,
            nodes=tuple(nodes),
            frames=(*places, *(UNKNOWN,) * (size - len(places))),
            libraries=((*libraries, *(UNKNOWN,) * (size - len(libraries))) if libraries else ()),
            scopes=(*stacks, *(None,) * (size - len(stacks))),
        )

    def eager(self, record: _Object) -> dict[str, list[Json]]:
        """Return signatures, resources and sequences of a journal's `eager`, as the document's."""
        frames = [self._frame(frame) for frame in _list(record.get("frames"))]
        return {
            "signatures": [self._signature(s, frames) for s in _list(record.get("signatures"))],
            "resources": [_resource(r) for r in _list(record.get("resources"))],
            "sequences": _list(record.get("sequences")),
        }

    def error(self, record: _Object) -> _Object:
        """Return a journal's `error`, as the document's."""
        raised = [self._frame(frame) for frame in _list(record.get("raised"))]
        handler = record.get("handler")
        return {
            **record,
            "raised": [at for at in raised if at != UNKNOWN],
            "handler": UNKNOWN if handler is None else self._frame(handler),
        }

    def visibility(self, record: _Object) -> _Object:
        """Return a journal's `visibility`, as the document's, but for its manner."""
        frames = [self._frame(frame) for frame in _list(record.get("frames"))]
        return {**record, "frames": list(frames), "frame": frames[0] if frames else UNKNOWN}

    def _frame(self, value: Json) -> int:
        match value:
            case [str(file), int(line), str(code), *rest]:
                is_user = int(bool(rest[0])) if rest else 1  # handlers are the user's
                return self._frames.setdefault((file, line, code, is_user), len(self._frames))
        return UNKNOWN

    def _scope(self, value: Json, frames: list[int]) -> int:
        match value:
            case [str(device), frame, *rest]:
                origin = rest[0] if rest and type(rest[0]) is int else None
                key = (device, _at(frames, frame), origin)
                return self._scopes.setdefault(key, len(self._scopes))
        return UNKNOWN

    def _scopes_of(self, record: _Object, frames: list[int]) -> list[Json]:
        found = [self._scope(scope, frames) for scope in _list(record.get("scopes"))]
        return [] if UNKNOWN in found else list(found)

    def _signature(self, record: Json, frames: list[int]) -> Json:
        if not isinstance(record, dict):
            return record
        attributes = record.get("attributes")
        known = _finite(attributes) if isinstance(attributes, dict) else {}
        return {
            **record,
            "scope": record.get("scope") or "",
            "frame": _at(frames, record.get("frame")),
            "library": _at(frames, record.get("library")),
            "scope_frame": _at(frames, record.get("scope_frame")),
            "scopes": self._scopes_of(record, frames),
            "attributes": self.attributes.add(known if isinstance(known, dict) else {}),
            "inputs": [self._tensor(t) for t in _list(record.get("inputs"))],
            "outputs": [self._tensor(t) for t in _list(record.get("outputs"))],
        }

    def _tensor(self, record: Json) -> Json:
        if not isinstance(record, dict):
            return record
        texts = (record.get(key) or "" for key in ("dtype", "device", "backing_device"))
        numbers = [self._string(text) for text in texts]
        return [*numbers, record.get("resource"), record.get("shape")]

    def _string(self, text: Json) -> int:
        if not isinstance(text, str):
            return UNKNOWN
        return self._strings.setdefault(text, len(self._strings))


def facts(record: Mapping[str, Json]) -> _Object:
    """Return a journal's `environment` or `devices` as the document has it."""
    return {key: _finite(value) for key, value in record.items() if key != "kind"}


def _resource(record: Json) -> Json:
    if not isinstance(record, dict):
        return record
    signature = record.get("signature")
    texts = {key: record.get(key) or "" for key in ("name", "dtype", "device")}
    return {**record, **texts, "signature": UNKNOWN if signature is None else signature}


def _finite(value: Json) -> Json:
    """Return a value without the floats that JSON has no number for."""
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, list):
        return [_finite(each) for each in value]
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    return value


def _stack(value: Json, scopes: list[int]) -> tuple[int, ...] | None:
    if not isinstance(value, list):
        return None
    return tuple(at for at in (_at(scopes, i) for i in value) if at != UNKNOWN)


def _at(pool: list[int], index: Json) -> int:
    return pool[index] if isinstance(index, int) and 0 <= index < len(pool) else UNKNOWN


def _texts(value: Json) -> list[str] | None:
    if not isinstance(value, list):
        return None
    texts = [each for each in value if isinstance(each, str)]
    return texts if len(texts) == len(value) else None


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []

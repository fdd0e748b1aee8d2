"""Converts the recorder's records, which have full lines and scopes, to capture file records."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec

from traceanalyzer.capture_file.attributes import AttributePool, finite
from traceanalyzer.capture_file.document import (
    CaughtError,
    EagerSequence,
    Frame,
    Json,
    Resource,
    Scope,
    Signature,
)
from traceanalyzer.capture_file.encoding import NOT_AS_EXPECTED, record
from traceanalyzer.capture_file.function_records import UNKNOWN, Definition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_Record = TypeVar("_Record")


def facts(found: Mapping[str, Json]) -> dict[str, Json]:
    """Return a journal's facts without the floats that JSON cannot express."""
    return {key: _finite(value) for key, value in found.items()}


def _finite(value: Json) -> Json:
    if isinstance(value, float):
        return finite(value)
    if isinstance(value, list):
        return [_finite(each) for each in value]
    if isinstance(value, dict):
        return facts(value)
    return value


class _Place(NamedTuple):
    """A line of code."""

    file: str
    line: int
    code: str
    is_user: int = 1  # a handler is the user's


class _Request(NamedTuple):
    """A scope, with the index of a place."""

    device: str
    place: int
    origin: int | None = None


class _Function(msgspec.Struct):
    """The lines of a function's nodes; `frames` are places, the other lists indices."""

    name: str
    nodes: tuple[str, ...]
    frame: list[int]
    scopes: list[tuple[int, ...] | None]
    frames: list[_Place]
    scope_pool: list[_Request]
    library: list[int] = []


class _EagerOps(msgspec.Struct):
    """Eager ops; the indices of signatures are those of `frames`."""

    frames: list[_Place]
    signatures: list[dict[str, Json]]
    resources: list[dict[str, Json]]
    sequences: tuple[EagerSequence, ...]


class EagerRecords(NamedTuple):
    """Eager ops, as the capture file has them."""

    signatures: tuple[Signature, ...] = ()
    resources: tuple[Resource, ...] = ()
    sequences: tuple[EagerSequence, ...] = ()


class Pools:
    """Builds records and collects their distinct frames, scopes and attributes."""

    def __init__(self) -> None:
        self.attributes = AttributePool()
        self.damaged = 0  #: records left out: not as the recorder writes them
        self._frames: dict[Frame, int] = {}
        self._scopes: dict[Scope, int] = {}

    @property
    def frames(self) -> tuple[Frame, ...]:
        """The frames, in the order of their indices."""
        return tuple(self._frames)

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The scopes, in the order of their indices."""
        return tuple(self._scopes)

    def all_of(
        self, read: Callable[[dict[str, Json]], _Record], records: Iterable[dict[str, Json]]
    ) -> tuple[_Record, ...]:
        """Read records; those that are damaged are left out and counted."""
        found = []
        for each in records:
            try:
                found.append(read(each))
            except NOT_AS_EXPECTED:
                self.damaged += 1
        return tuple(found)

    def records(self, kind: type[_Record], found: Iterable[Any]) -> tuple[_Record, ...]:
        """Read records that are already in the form of the capture file."""
        return self.all_of(partial(record, kind), found)

    def definition(self, found: dict[str, Json]) -> Definition:
        """Return a journal's `function`."""
        function = record(_Function, found)
        lines = function.library or function.frame
        if not len(function.nodes) == len(function.frame) == len(function.scopes) == len(lines):
            raise ValueError
        frames = [self._frame(place) for place in function.frames]
        scopes = [self._scope(request, frames) for request in function.scope_pool]
        return Definition(
            name=function.name,
            nodes=function.nodes,
            frames=tuple(_at(frames, at) for at in function.frame),
            libraries=tuple(_at(frames, at) for at in function.library),
            scopes=tuple(
                None if stack is None else tuple(scopes[at] for at in stack)
                for stack in function.scopes
            ),
        )

    def eager(self, found: dict[str, Json]) -> EagerRecords:
        """Return a journal's `eager`."""
        ops = record(_EagerOps, found)
        frames = [self._frame(place) for place in ops.frames]
        return EagerRecords(
            tuple(self._signature(each, frames) for each in ops.signatures),
            tuple(record(Resource, _without_null(each)) for each in ops.resources),
            ops.sequences,
        )

    def error(self, found: dict[str, Json]) -> CaughtError:
        """Return a journal's `error`."""
        raised, handler = self.indices(found["raised"]), found["handler"]
        caught = UNKNOWN if handler is None else self.indices([handler])[0]
        return record(CaughtError, {**found, "raised": raised, "handler": caught})

    def indices(self, places: Json) -> list[int]:
        """Return the indices of frames, of a journal's places."""
        return [self._frame(place) for place in record(list[_Place], places)]

    def _frame(self, place: _Place) -> int:
        frame = Frame(
            file=place.file, line=place.line, code=place.code, is_user=bool(place.is_user)
        )
        return self._frames.setdefault(frame, len(self._frames))

    def _scope(self, request: _Request, frames: Sequence[int]) -> int:
        frame = _at(frames, request.place)
        scope = Scope(device=request.device, frame=frame, origin=request.origin)
        return self._scopes.setdefault(scope, len(self._scopes))

    def _signature(self, found: dict[str, Any], frames: Sequence[int]) -> Signature:
        requests = record(list[_Request], found.get("scopes", []))
        return record(
            Signature,
            {
                **_without_null(found),
                **{
                    key: _at(frames, found.get(key, UNKNOWN))
                    for key in ("frame", "library", "scope_frame")
                },
                "scopes": [self._scope(request, frames) for request in requests],
                "attributes": self.attributes.add(facts(found["attributes"])),
                "inputs": [_without_null(tensor) for tensor in found["inputs"]],
                "outputs": [_without_null(tensor) for tensor in found["outputs"]],
            },
        )


_NULLS: Final = {
    **dict.fromkeys(("dtype", "device", "backing_device", "scope", "name"), ""),
    "signature": UNKNOWN,
}


def _without_null(found: dict[str, Any]) -> dict[str, Any]:
    """Return a record with its nulls, for unknown texts and indices, replaced."""
    nulls = {key: _NULLS[key] for key, value in found.items() if value is None and key in _NULLS}
    return {**found, **nulls}


def _at(pool: Sequence[int], index: int) -> int:
    return UNKNOWN if index == UNKNOWN else pool[index]

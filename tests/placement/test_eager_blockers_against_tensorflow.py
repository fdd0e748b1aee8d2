"""Blockers of eager ops, compared with TensorFlow's own eager runtime with emulated GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import pytest

from tests.emulator.eager import EagerQuestion, answers
from tests.emulator.oracle import the_oracle
from tests.placement.eager_asking import (
    CALLS,
    CPU,
    GPU,
    Call,
    choices,
    drawn,
    is_resource,
    op_of,
    plain_setting,
    registry_of_oracle,
)
from traceanalyzer.placement.blocker import Blocker, BlockerKind
from traceanalyzer.placement.blockers import eager_blockers
from traceanalyzer.placement.eager import (
    place_eager,
)


@dataclass(frozen=True, slots=True)
class _Variant:
    """A call of an op, as it is held on the CPU or is no more."""

    call: Call
    types: Mapping[str, str]
    places: tuple[str, ...]  # of its inputs, in their order
    scope: str

    def question(self) -> EagerQuestion:
        """Return it as a question."""
        return drawn(self.call, self.types, self.places, self.scope)

    def without(self, blocker: Blocker) -> _Variant | None:
        """Return the call without what holds it; None where it would be no call of this op."""
        if blocker.kind is BlockerKind.REQUEST:
            return replace(self, scope="")
        if blocker.kind is BlockerKind.RESOURCE:
            assert blocker.input is not None
            places = list(self.places)
            places[blocker.input] = "/GPU:0"
            moved = replace(self, places=tuple(places))
            made = op_of(moved.question(), plain_setting()).inputs[blocker.input]
            return moved if made.device == GPU else None
        if blocker.kind is BlockerKind.ATTRIBUTES:
            return self._of_other_types(blocker.refused)
        return None

    def _of_other_types(self, attributes: Sequence[str]) -> _Variant | None:
        of_call = choices(self.call, registry_of_oracle())
        if not of_call.keys() >= set(attributes):
            return None
        for types in product(*(of_call[name] for name in attributes)):
            changed = replace(
                self,
                types={**self.types, **dict(zip(attributes, types, strict=True))},
                places=("/GPU:0",) * len(self.places),
                scope="",
            )
            if (
                place_eager(op_of(changed.question(), plain_setting()), plain_setting()).device
                == GPU
            ):
                return replace(changed, places=self.places, scope=self.scope)
        return None


def _held_on_cpu(calls: Sequence[Call]) -> list[tuple[_Variant, tuple[Blocker, ...]]]:
    """Return those that are on the CPU, with what holds them there."""
    found = []
    for call in calls:
        types = choices(call, registry_of_oracle())
        places = ("/CPU:0", "/GPU:0") if any(map(is_resource, call.inputs.values())) else ("",)
        for at, place, scope in product(range(2), places, ("", "/CPU:0")):
            chosen = {name: of[at * len(of) // 2] for name, of in types.items()}
            count = sum(len(i) if isinstance(i, tuple) else 1 for i in call.inputs.values())
            variant = _Variant(call, chosen, (place,) * max(count, 1), scope)
            op = op_of(variant.question(), plain_setting())
            if place_eager(op, plain_setting()).device == CPU:
                blockers = eager_blockers(op, plain_setting())
                assert blockers.is_complete
                found.append((variant, blockers.found))
    return found


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow, id="all"), 12])
def test_without_what_holds_it_an_op_is_on_the_gpu_and_not_with_any_of_it(step: int) -> None:
    free: list[_Variant] = []
    held: list[_Variant] = []
    stacked = 0
    for variant, blockers in _held_on_cpu(CALLS[::step]):
        for left_out in (None, *blockers):
            changed: _Variant | None = variant
            for blocker in blockers:
                if changed is not None and blocker is not left_out:
                    changed = changed.without(blocker)
            if changed is not None:
                (free if left_out is None else held).append(changed)
        stacked += len(blockers) > 1
    asked = {repr(v): v for v in (*free, *held)}
    found = answers(the_oracle(), [v.question() for v in asked.values()])
    devices = dict(zip(asked, (answer.device for answer in found), strict=True))
    not_free = [v for v in free if devices[repr(v)] != GPU]
    not_held = [v for v in held if devices[repr(v)] == GPU]
    assert not not_free
    assert not not_held
    assert stacked >= 32 / step

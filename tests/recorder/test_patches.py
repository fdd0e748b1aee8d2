"""Attributes that are replaced, and put back."""

from __future__ import annotations

from traceanalyzer.recorder.patches import Patches


class Owner:
    def method(self) -> int:
        return 1

    @property
    def value(self) -> int:
        return 1


def test_what_is_replaced_twice_is_put_back_as_it_was() -> None:
    before = dict(vars(Owner))
    patches = Patches()
    patches.replace(Owner, "method", lambda _: 2)
    patches.replace(Owner, "value", property(lambda _: 2))
    patches.replace(Owner, "method", lambda _: 3)
    owner = Owner()
    assert (owner.method(), owner.value) == (3, 2)
    patches.undo()
    assert (owner.method(), owner.value) == (1, 1)
    assert all(vars(Owner)[name] is value for name, value in before.items())
    patches.undo()
    assert owner.method() == 1

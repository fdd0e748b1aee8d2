"""What the recorder told of the shapes of a function, as far as it can be relied on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from traceanalyzer.sidecar.pools import Pools

if TYPE_CHECKING:
    from traceanalyzer.sidecar.document import Json


def shapes_of(shapes: Json) -> object:
    record: dict[str, Json] = {"name": "f", "nodes": ["a", "b"], "shapes": shapes}
    definition = Pools().definition(record)
    assert definition is not None
    return definition.shapes


def test_shapes_are_taken_over() -> None:
    assert shapes_of([[[2, -1], None, []], []]) == (((2, -1), None, ()), ())
    assert shapes_of([None, [[3]]]) == (None, ((3,),))


@pytest.mark.parametrize("broken", [[[-2]], [["3"]], [[1.5]], [[True]], [7], "ab", 7, [[2**63]]])
def test_what_is_no_shape_is_not_known(broken: Json) -> None:
    assert shapes_of([broken, [[3]]]) == (None, ((3,),))

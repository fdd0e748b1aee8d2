"""The tables' lines: nothing is lost when kernels are merged, written and read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernel_tables.lines import kernel_lines
from traceanalyzer.placement.kernel_tables import definition_of, kernel_of

# What KernelDefs have, as these lines read them; TensorFlow need not be imported for that.
NUMBERS = {"float": 1, "double": 2, "int32": 3, "string": 7}


class Fake:
    """A message: its fields are attributes."""

    def __init__(self, **fields: object) -> None:
        """Set the fields."""
        self.__dict__.update(fields)


def constraint(name: str, values: list[str | int | bool]) -> Fake:
    fields: dict[str, list[Any]] = {
        kind: [] for kind in ("type", "s", "i", "b", "f", "shape", "tensor", "func")
    }
    for value in values:
        if isinstance(value, bool):
            fields["b"].append(value)
        elif isinstance(value, int):
            fields["i"].append(value)
        elif value in NUMBERS:
            fields["type"].append(NUMBERS[value])
        else:
            fields["s"].append(value.encode())
    return Fake(name=name, allowed_values=Fake(list=Fake(**fields)))


def kernel(
    device: str, *, host: tuple[str, ...] = (), label: str = "", **allowed: list[Any]
) -> Fake:
    return Fake(
        op="X",
        device_type=device,
        constraint=[constraint(name, values) for name, values in allowed.items()],
        host_memory_arg=host,
        priority=0,
        label=label,
    )


def lines(*kernels: Fake, lists: tuple[str, ...] = ()) -> list[str]:
    return kernel_lines(kernels, frozenset(lists))


def test_kernels_that_differ_in_one_attribute_are_one_line() -> None:
    found = lines(
        *(kernel("GPU", T=[t], I=[i]) for t in ("float", "double") for i in ("int32", "string"))
    )
    assert found == ["GPU I=int32,string T=double,float"]


def test_what_is_no_product_is_no_line() -> None:
    found = lines(
        kernel("GPU", T=["float"], I=["int32"]),
        kernel("GPU", T=["double"], I=["string"]),
    )
    assert found == ["GPU I=int32 T=float", "GPU I=string T=double"]


def test_a_list_of_two_types_is_not_two_lists_of_one() -> None:
    kernels = (kernel("GPU", T=["float"]), kernel("GPU", T=["double"]))
    assert lines(*kernels, lists=("T",)) == ["GPU T=double", "GPU T=float"]


def test_the_same_kernel_twice_is_told() -> None:
    twice = kernel("CPU", T=["float"])
    assert lines(twice, twice) == ["CPU T=float", "CPU T=float ; copy=2"]


AWKWARD = st.text(alphabet=" ,;{}=|\"\\'aé\n", max_size=6)


@given(st.sets(AWKWARD, min_size=1))
def test_strings_are_read_as_they_were(values: set[str]) -> None:
    (line,) = lines(kernel("CPU", s=sorted(values)))
    assert "\n" not in line
    assert kernel_of("X", line).constraints == {"s": frozenset(values)}


@pytest.mark.parametrize("values", [[True], [False, True], [-1], [0, 12]])
def test_numbers_and_truths_are_read_as_they_were(values: list[int | bool]) -> None:
    (line,) = lines(kernel("CPU", v=values))
    read = kernel_of("X", line).constraints["v"]
    assert sorted(map(repr, read)) == sorted(map(repr, values))


@pytest.mark.parametrize("line", ["in a", "attr T", "attr T:type{float"])
def test_a_damaged_definition_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="no "):
        definition_of("X", line)

"""Which ops to move: the least that is copied, by a minimum cut, checked against all ways."""

from itertools import chain, combinations

from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.transfers.cheapest_move import Move, Value, cheapest_move


def value(producer: str, *consumers: str, cost: int | None) -> Value[str]:
    return Value(producer=producer, consumers=consumers, cost=cost)


def move(
    to_gpu: tuple[str, ...] = (),
    to_cpu: tuple[str, ...] = (),
    *,
    saved: int,
    stays: int = 0,
    unknown: tuple[int, int] = (0, 0),
) -> Move[str]:
    return Move(
        to_gpu=to_gpu,
        to_cpu=to_cpu,
        saved=saved,
        stays=stays,
        unknown_before=unknown[0],
        unknown_after=unknown[1],
    )


def test_where_an_op_has_no_gpu_kernel_the_rest_moves_as_far_as_that_is_cheaper() -> None:
    """The chain: 800 bytes come to the CPU, `cast` makes 100 of them, and `strings` is held."""
    found = cheapest_move(
        [
            value("before", "cast", cost=800),
            value("cast", "strings", cost=100),
            value("strings", "after", cost=8),
        ],
        on_cpu={"cast", "strings"},
        cannot_move={"before", "after", "strings"},
    )

    assert found == move(("cast",), saved=700, stays=108)


def test_a_value_of_unknown_cost_is_never_copied_anew() -> None:
    """Moving `a` alone would save 10 and copy what goes from `a` to `b`: nobody knows how much."""
    found = cheapest_move(
        [value("p", "a", cost=10), value("a", "b", cost=None)],
        on_cpu={"a", "b"},
        cannot_move={"p", "b"},
    )

    assert found is None


def test_one_that_is_copied_already_is_better_gone_but_counts_for_nothing() -> None:
    values = [value("p", "a", cost=None), value("a", "q", cost=None)]

    assert cheapest_move(values, on_cpu={"a"}, cannot_move={"p", "q"}) == move(
        ("a",), saved=0, unknown=(2, 0)
    )
    assert cheapest_move(values, on_cpu={"a"}, cannot_move={"p", "q", "a"}) is None


OPS = "abcdef"
_VALUES = st.lists(
    st.builds(
        Value,
        producer=st.sampled_from(OPS),
        consumers=st.lists(st.sampled_from(OPS), min_size=1, max_size=3).map(tuple),
        cost=st.integers(0, 1000),
    ),
    min_size=1,
    max_size=8,
)


@given(_VALUES, st.sets(st.sampled_from(OPS)), st.sets(st.sampled_from(OPS)))
def test_no_other_way_copies_less(
    values: list[Value[str]], on_cpu: set[str], held: set[str]
) -> None:
    def cost(cpu: set[str]) -> int:
        return sum(
            v.cost or 0
            for v in values
            if any((c in cpu) != (v.producer in cpu) for c in v.consumers)
        )

    ops = {op for v in values for op in (v.producer, *v.consumers)}
    free = sorted(ops - held)
    flips = chain.from_iterable(combinations(free, n) for n in range(len(free) + 1))
    least = min((cost(on_cpu ^ set(flip)), len(flip)) for flip in flips)

    found = cheapest_move(values, on_cpu, held)

    if found is None:
        assert least == (cost(on_cpu), 0)
    else:
        assert not held & {*found.to_gpu, *found.to_cpu}
        assert (found.stays, len(found.to_gpu) + len(found.to_cpu)) == least
        assert found.saved == cost(on_cpu) - found.stays > 0
        assert on_cpu >= set(found.to_gpu)
        assert not on_cpu & set(found.to_cpu)

"""What the optimizer `pin_to_host` takes to the host, on graphs written by hand."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.placement.graphs import KERNELS, Node, node, written
from traceanalyzer.placement.pin_to_host import pinned_to_host
from traceanalyzer.placement.registry import load
from traceanalyzer.placement.static_sizes import NOT_STATIC, Sizes

NOTHING: dict[str, bool] = {}


def pinned(*lines: Node, folds: bool = True, **sizes: Sizes | int | None) -> dict[str, bool]:
    """What goes to the host, and whether that is known, by name; sizes are those of outputs."""
    graph = written(*lines)
    known = [sizes.get(name, 3) for name in graph.graph.names]
    found = pinned_to_host(
        graph.placed().placement,
        graph.attributes,
        load(KERNELS),
        [(each,) if isinstance(each, int) else each for each in known],
        folds=folds,
    )
    return {graph.graph.names[at]: is_known for at, is_known in found.items()}


def arg(name: str, T: str = "float", on: str = "GPU:0") -> Node:  # noqa: N803
    return node(name, "_Arg", T=T, index=0, on=on)


def length(name: str, *inputs: str) -> Node:
    return node(name, "StringLength", *inputs)


def cast(name: str, *inputs: str, to: str = "float") -> Node:
    return node(name, "Cast", *inputs, SrcT="int32", DstT=to)


def mul(name: str, *inputs: str, T: str = "float", **more: Any) -> Node:  # noqa: ANN401, N803
    return node(name, "Mul", *inputs, T=T, **more)


def constant(name: str, dtype: str = "float") -> Node:
    return node(name, "Const", dtype=dtype, value={"tensor": dtype, "shape": [3]})


WORDS = arg("words", "string", "CPU:0")
# Of a matrix that lives on the GPU; nothing that needs it can be on the host.
LARGE = (
    node("m", "VarHandleOp", dtype="float", shape={"shape": [9, 9]}),
    node("read", "ReadVariableOp", "m", dtype="float"),
)


def test_what_is_computed_from_few_numbers_on_the_host_goes_there() -> None:
    chain = (WORDS, length("n", "words"), cast("f", "n"), mul("square", "f", "f"))
    assert pinned(*chain) == {"f": True, "square": True}


def test_an_op_with_an_input_on_the_gpu_stays_and_so_does_what_follows() -> None:
    found = pinned(
        WORDS,
        length("n", "words"),
        cast("f", "n"),
        *LARGE,
        mul("scaled", "f", "read"),
        mul("again", "scaled", "f"),
        read=81,
        scaled=81,
    )
    assert found == {"f": True}


def test_more_than_sixty_four_elements_stay() -> None:
    chain = (WORDS, length("n", "words"), cast("f", "n"))
    assert pinned(*chain, n=64, f=64) == {"f": True}
    assert pinned(*chain, n=65, f=65) == NOTHING
    assert pinned(*chain, n=64, f=65) == NOTHING


def test_what_is_known_only_when_the_graph_runs_stays() -> None:
    chain = (WORDS, length("n", "words"), cast("f", "n"))
    assert pinned(*chain, n=NOT_STATIC) == NOTHING
    assert pinned(*chain, f=NOT_STATIC) == NOTHING


def test_where_sizes_were_not_recorded_it_is_open() -> None:
    chain = (WORDS, length("n", "words"), cast("f", "n"), mul("square", "f", "f"))
    assert pinned(*chain, n=None) == {"f": False, "square": False}
    assert pinned(*chain, square=None) == {"f": True, "square": False}
    assert pinned(*chain, n=None, square=65) == {"f": False}
    assert pinned(*chain, f=()) == {"f": False, "square": False}


def test_other_types_stay_but_strings_are_small_whatever_their_size() -> None:
    chain = (WORDS, length("n", "words"), cast("f", "n", to="double"))
    assert pinned(*chain) == NOTHING
    assert pinned(WORDS, length("n", "words"), cast("f", "n", to="half")) == NOTHING
    lengths = (arg("words", "string", "CPU:0"), length("n", "words"), cast("f", "n"))
    assert pinned(*lengths, words=NOT_STATIC) == {"f": True}


def test_an_output_that_a_gpu_kernel_leaves_in_host_memory_is_there_already() -> None:
    picture = (*LARGE, node("shape", "Shape", "read", T="float", out_type="int32"))
    doubled = mul("doubled", "shape", "shape", T="int32")
    assert pinned(*picture, doubled, read=NOT_STATIC, shape=2) == {"doubled": True}


def test_what_leaves_a_loop_or_a_branch_stays() -> None:
    merge = node("merge", "Merge", "n", "n", T="int32", N=2)
    chain = (WORDS, length("n", "words"), merge, cast("f", "merge"))
    assert pinned(*chain, merge=(3, 1)) == NOTHING


def test_a_loop_is_gone_through_once() -> None:
    found = pinned(
        WORDS,
        length("n", "words"),
        node("enter", "Enter", "n", T="int32", frame_name={"s": "f"}),
        node("merge", "Merge", "enter", "next", T="int32", N=2),
        cast("f", "merge"),
        node("next", "NextIteration", "merge", T="int32"),
        cast("outside", "n"),
        merge=(3, 1),
    )
    assert found == {"outside": True}


def test_an_identity_is_as_its_source() -> None:
    both = node("same", "IdentityN", "n", T=["int32"])
    chain = (WORDS, length("n", "words"), node("id", "Identity", "n", T="int32"))
    assert pinned(*chain, cast("f", "id")) == {"f": True}
    assert pinned(*chain, cast("f", "id"), id=None)["f"] is True
    assert pinned(WORDS, length("n", "words"), both, cast("f", "same"))["f"] is True
    large = node("id", "Identity", "read", T="float")
    assert "twice" not in pinned(*LARGE, large, mul("twice", "id", "id"))


def test_identities_that_go_round_or_on_and_on_leave_it_open() -> None:
    ring = (
        node("a", "Identity", "b", T="float"),
        node("b", "Identity", "a", T="float"),
        mul("c", "b", "b"),
    )
    assert pinned(*ring, a=None, b=None) == {"a": False, "b": False, "c": False}
    chain = [node(f"i{k}", "Identity", f"i{k - 1}", T="float") for k in range(1, 1500)]
    unknown = {f"i{k}": None for k in range(1500)}
    last = mul("m", "i1499", "i1499")
    assert pinned(WORDS, length("i0", "words"), *chain, last, m=None, **unknown)["m"] is False


def test_a_constant_goes_only_where_nothing_on_the_gpu_needs_it() -> None:
    chain = (WORDS, length("n", "words"), cast("f", "n"), constant("c"), mul("p", "f", "c"))
    assert pinned(*chain) == {"f": True, "c": True, "p": True}
    found = pinned(*chain, *LARGE, mul("q", "read", "c"), read=81, q=81)
    assert found == {"f": True, "p": True}
    axes = constant("axes", "int32")
    total = node("t", "Sum", "read", "axes", T="float", Tidx="int32")
    assert pinned(*LARGE, axes, total, read=81, axes=1) == {"axes": True}


def test_what_is_made_of_constants_counts_as_one() -> None:
    long = node("sum", "Sum", "c", "axes", T="float", Tidx="int32")
    chain = (
        WORDS,
        length("n", "words"),
        cast("f", "n"),
        constant("c"),
        constant("axes", "int32"),
        long,
        mul("p", "f", "sum"),
    )
    assert pinned(*chain, c=100, sum=1)["p"] is True
    assert "p" not in pinned(*chain, c=100, sum=1, folds=False)


def test_what_draws_from_a_small_shape_goes() -> None:
    drawn = node("u", "RandomUniform", "s", T="int32", dtype="float")
    assert pinned(constant("s", "int32"), drawn)["u"] is True


def test_where_an_op_is_not_of_tensorflow_the_sizes_do_not_tell() -> None:
    assert pinned(WORDS, length("n", "words"), node("x", "Other", "n")) == NOTHING


def test_without_attributes_it_is_open() -> None:
    chain = (WORDS, length("n", "words"), node("f", "Cast", "n", attributes=None))
    assert pinned(*chain) == {"f": False}


def test_on_a_machine_without_a_gpu_nothing_moves() -> None:
    graph = written(WORDS, length("n", "words"), cast("f", "n"))
    placed = graph.placed(gpus=0).placement
    sizes = [(3,)] * 3
    assert pinned_to_host(placed, graph.attributes, load(KERNELS), sizes) == {}


@given(st.data())
def test_what_more_is_known_of_sizes_only_settles_what_was_open(data: st.DataObject) -> None:
    """With any sizes in place of those missing: what was sure stays, what stayed does."""
    sources = ["n", "m/read", "c"]
    lines = [
        WORDS,
        length("n", "words"),
        node("m", "VarHandleOp", dtype="float", shape={"shape": [9]}),
        node("m/read", "ReadVariableOp", "m", dtype="float"),
        constant("c"),
        cast("f", "n"),
    ]
    sources.append("f")
    for at in range(data.draw(st.integers(1, 6))):
        one, other = (data.draw(st.sampled_from([s for s in sources if s != "n"])) for _ in "ab")
        lines.append(mul(f"p{at}", one, other))
        sources.append(f"p{at}")
    names = [line.name for line in lines]
    full = {name: data.draw(st.sampled_from([3, 65, NOT_STATIC])) for name in names}
    some = {k: None if data.draw(st.booleans()) else v for k, v in full.items()}
    settled, opened = pinned(*lines, **full), pinned(*lines, **some)
    assert {name for name, is_known in opened.items() if is_known} <= settled.keys()
    assert settled.keys() <= opened.keys()
    assert all(settled.values())

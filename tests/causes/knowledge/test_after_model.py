"""Advice respects the direction of the data: what comes after the model cannot feed it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.causes.examples import Example, captured
from tests.placement.graphs import node
from tests.placement.test_program import Program, arg, read, tensor
from traceanalyzer.causes.knowledge.after_model import after_the_model, away_from_the_input
from traceanalyzer.model import Fix
from traceanalyzer.tables.joined import OpRecord

if TYPE_CHECKING:
    from traceanalyzer.run import Run

F = "__inference_next_words_1"
INTO_THE_INPUT = Fix(text="Look up earlier.", code="dataset = dataset.map(lookup)")
ANOTHER = Fix(text="Use another op.", code="tf.gather(x, i)")


def run_of(program: Program, *ops: OpRecord) -> Run:
    """A run with an op for each record: op0, op1, and so on."""
    rows = tuple({"name": f"o{k}", "type": "LookupTableFindV2"} for k in range(len(ops)))
    run = Example(title="", ops=rows).run()
    return captured(run, program.capture_file(), ops)


def in_graph(name: str) -> OpRecord:
    return OpRecord(frame=None, requested_device=None, function=F, node=name)


def eager(signature: int) -> OpRecord:
    return OpRecord(frame=None, requested_device=None, signatures=(signature,))


def model() -> Program:
    """A function that looks words up, multiplies by a variable, and looks up what it found."""
    program = Program()
    v = program.variable()
    program.eager("IteratorGetNext", outputs=(tensor("string", shape=(4,)),))
    out = tensor("float", shape=(4, 9))
    program.eager(F, tensor("string", shape=(4,)), v, outputs=(out,))
    program.function(
        F,
        arg("words", T="string"),
        arg("v", 1, T="resource"),
        node("ids", "LookupTableFindV2", "t", "words"),
        read("weights", "v"),
        node("logits", "MatMul", "ids", "weights", T="float"),
        node("best", "ArgMax", "logits", T="float"),
        node("texts", "LookupTableFindV2", "t", "best"),
    )
    return program


def test_within_a_graph_the_edges_tell() -> None:
    run = run_of(model(), in_graph("ids"), in_graph("texts"))
    assert after_the_model(run) == {"op1"}


def test_of_eager_ops_types_and_shapes_tell() -> None:
    program = model()
    best = tensor("int64", shape=(4,))
    program.eager("ArgMax", tensor("float", shape=(4, 9)), outputs=(best,))
    after = program.eager("LookupTableFindV2", best)
    before = program.eager("LookupTableFindV2", tensor("string", shape=(4,)))
    run = run_of(program, eager(after), eager(before))
    assert after_the_model(run) == {"op0"}


def test_what_the_data_may_hold_too_is_not_taken_for_a_result() -> None:
    program = model()
    program.eager("IteratorGetNext", outputs=(tensor("float", shape=(4, 9)),))
    lookup = program.eager("LookupTableFindV2", tensor("float", shape=(4, 9)))
    assert after_the_model(run_of(program, eager(lookup))) == frozenset()


def test_what_is_also_made_without_a_variable_is_not_taken_for_a_result() -> None:
    """As row splits are, whose type and shape an op on results may give too."""
    program = model()
    splits = tensor("int64", shape=(4,))
    program.eager("ArgMax", tensor("float", shape=(4, 9)), outputs=(splits,))
    program.eager("StringLength", tensor("string", shape=(7,)), outputs=(splits,))
    lookup = program.eager("LookupTableFindV2", splits)
    assert after_the_model(run_of(program, eager(lookup))) == frozenset()


def test_what_comes_after_the_model_is_not_to_be_moved_ahead_of_it() -> None:
    run = run_of(model(), in_graph("ids"), in_graph("texts"))
    fixes = (INTO_THE_INPUT, ANOTHER)
    assert away_from_the_input(fixes, ["op0"], run) == fixes
    late = away_from_the_input(fixes, ["op1"], run)
    assert INTO_THE_INPUT not in late
    assert ANOTHER in late
    assert len(late) == 2
    both = away_from_the_input(fixes, ["op0", "op1"], run)
    assert both[:2] == fixes
    assert len(both) == 3

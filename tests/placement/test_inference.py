"""What the other ops of a trace show about an op."""

from pathlib import Path

import pytest

import traceanalyzer as ta
from tests.emulator.captures import captured
from tests.labelled.calibration import without_capture_file
from traceanalyzer.placement.blocker import BlockerKind
from traceanalyzer.placement.explanations import PlacementExplanation
from traceanalyzer.placement.inference import OpenOp, OtherOps, inferred


def _open_op(function: str, name: str, op_type: str, *types: str) -> OpenOp:
    explanation = PlacementExplanation(type=op_type)
    return OpenOp("op", name, function, is_eager=False, types=types, explanation=explanation)


@pytest.mark.parametrize(("version", "habit"), [("2.0.4", "embedding"), ("2.6.0", "")])
def test_only_an_old_keras_puts_the_table_of_an_embedding_layer_on_the_cpu(
    version: str, habit: str
) -> None:
    op = _open_op("train_function", "model/embedding_1/embedding_lookup", "ResourceGather")
    found = inferred([op], OtherOps(), version)[op.op_id]
    assert found.certainty == "likely"
    assert found.habit == habit


@pytest.mark.parametrize(
    ("beside", "certainty"),
    [("MatrixLogarithm", "possible"), ("StringFormat", "likely")],
)
def test_an_op_that_must_be_on_the_cpu_may_keep_those_there_that_use_its_results(
    beside: str, certainty: str
) -> None:
    """`colocate_with` leaves the same trace as a scope around both ops."""
    op = _open_op("turns", "Square", "Square", "float")
    other = OtherOps(on_gpu=[("turns", "Cos", "Cos")], refused=[("turns", beside, beside)])
    assert inferred([op], other, "2.21.0")[op.op_id].certainty == certainty


# Inputs that a GPU made need not be all inputs, and their dtypes can be any.
FED_BY_GPU = """\
import tensorflow as tf

weights = tf.random.normal([64, 64])
for _ in range(2):
    scores = tf.matmul(weights, weights)
    verdict = tf.where(scores > 0.0, "high", "low")
    squares = tf.pow(tf.math.top_k(scores, 5).indices, 2)
    hits = tf.cast(scores > 0.1, tf.int32)
    counts = tf.matmul(hits, hits)
    # A GPU takes these inputs, which it made, from host memory.
    misses = -hits
    turned = tf.transpose(scores, tf.math.top_k([1.0, 2.0], 2).indices)
"""


@pytest.mark.slow
def test_an_op_fed_by_a_gpu_can_lack_a_kernel_for_its_other_input_or_its_dtype(
    tmp_path: Path,
) -> None:
    run = ta.load(without_capture_file(captured(FED_BY_GPU).logdir, tmp_path))
    on_cpu = run.ops[run.ops["placement"] == "cpu"]
    assert {"SelectV2", "Pow", "MatMul"} <= {*on_cpu["type"]}
    assert {finding.cause for finding in ta.diagnose(run).findings} == set()


@pytest.mark.parametrize("beside", ["", "WriteSummary", "SaveV2"])
def test_an_eager_op_may_be_of_the_code_that_writes_summaries_or_checkpoints(beside: str) -> None:
    op = OpenOp(
        op_id="mul",
        name="Mul",
        function="",
        is_eager=True,
        types=("float",),
        explanation=PlacementExplanation(type="Mul"),
    )
    found = inferred([op], OtherOps(eager_types={"Mul", beside}), "2.21.0")["mul"]
    assert found.certainty == ("possible" if beside else "likely")
    doubt = f"library code that runs {beside} also requests the CPU"
    assert found.doubt == (doubt if beside else "")


@pytest.mark.parametrize(
    "name", ["Adam/Identity", "Adam/Pow_1", "Adam/ExponentialDecay/Floor", "model/Adam/Cast_1"]
)
def test_what_an_optimizer_prepares_belongs_to_the_variables_that_it_updates(name: str) -> None:
    update = _open_op("step", "Adam/Adam/update_2/ResourceScatterAdd", "ResourceScatterAdd")
    update = update._replace(op_id="update")
    op = _open_op("step", name, "Pow", "float")._replace(op_id="prepared")
    other = OtherOps(on_gpu=[("step", "model/dense/MatMul", "MatMul")])

    found = inferred([update, op], other, "2.9.0")["prepared"]

    (blocker,) = found.blockers
    assert (blocker.kind, blocker.name) == (BlockerKind.RESOURCE, update.name)
    assert blocker.link == "class"


@pytest.mark.parametrize("name", ["RMSprop/Pow", "Scale/Pow", "Adam_stats/Pow"])
def test_the_scope_of_another_optimizer_or_layer_is_its_own(name: str) -> None:
    update = _open_op("step", "Adam/Adam/update_2/ResourceScatterAdd", "ResourceScatterAdd")
    op = _open_op("step", name, "Square", "float")._replace(op_id="other")
    other = OtherOps(on_gpu=[("step", "model/dense/MatMul", "MatMul")])

    found = inferred([update, op], other, "2.9.0")["other"]

    assert {blocker.kind for blocker in found.blockers} == {BlockerKind.REQUEST}


def test_an_op_of_an_embedding_layer_has_the_fix_of_its_table() -> None:
    lookup = _open_op("step", "model/embedding/embedding_lookup", "ResourceGather")
    beside = _open_op("step", "model/embedding/Cast", "Cast")._replace(op_id="beside")

    found = inferred([lookup, beside], OtherOps(on_gpu=[("step", "m/MatMul", "MatMul")]), "2.3.0")

    assert {explanation.habit for explanation in found.values()} == {"embedding"}
    assert len(found) == 2

"""What the other ops of a trace show about an op."""

import pytest

from traceanalyzer.placement.explanations import PlacementExplanation
from traceanalyzer.placement.inference import OpenOp, inferred


@pytest.mark.parametrize(("version", "habit"), [("2.0.4", "embedding"), ("2.6.0", "")])
def test_only_an_old_keras_puts_the_table_of_an_embedding_layer_on_the_cpu(
    version: str, habit: str
) -> None:
    op = OpenOp(
        op_id="lookup",
        name="model/embedding_1/embedding_lookup",
        function="train_function",
        is_eager=False,
        types=(),
        is_fed_by_gpu=False,
        explanation=PlacementExplanation(type="ResourceGather"),
    )
    found = inferred([op], [], version, is_distributed=False)["lookup"]
    assert found.certainty == "likely"
    assert found.habit == habit

"""The shapes of the tensors of graphs: which are read, and of which programs."""

from __future__ import annotations

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import rewriter_config_pb2

from tests.capturing.recorder.ours import failing
from tests.capturing.recorder.test_attach import Recorder, recorder
from traceanalyzer.capturing.recorder.graphs import functions
from traceanalyzer.capturing.recorder.graphs.functions import static_shapes

__all__ = ["recorder"]  # a fixture

OPTION = "pin_to_host_optimization"


@tf.function(
    input_signature=[
        tf.TensorSpec([None, 3], tf.float32, "open"),
        tf.TensorSpec(None, tf.float32, "unranked"),
        tf.TensorSpec([2, 3], tf.float32, "known"),
    ]
)
def _shaped(open_: tf.Tensor, unranked: tf.Tensor, known: tf.Tensor) -> list[tf.Tensor]:
    parts = tf.split(known, 3, axis=1, name="parts")
    return [open_ + 1.0, unranked + 1.0, *parts]


def test_shapes_are_as_far_as_python_knows_them() -> None:
    graph = _shaped.get_concrete_function().graph
    names = ["open", "unranked", "known", "parts", "nothing"]
    assert static_shapes(names, [graph]) == [
        [[-1, 3]],
        [None],
        [[2, 3]],
        [[2, 1], [2, 1], [2, 1]],
        None,
    ]


def test_functions_are_recorded_with_shapes_where_it_is_on(recorder: Recorder) -> None:
    tf.function(lambda x: x + 1.0)(tf.ones([5]))
    tf.config.optimizer.set_experimental_options({OPTION: True})
    try:
        tf.function(lambda x: x + 1.0)(tf.ones([5]))
    finally:
        tf.config.optimizer.set_experimental_options({OPTION: False})
    off, on = recorder.of_kind("function")
    assert "shapes" not in off
    assert dict(zip(on["nodes"], on["shapes"], strict=True))["add"] == [[5]]


@pytest.mark.parametrize("is_on", [True, False])
def test_graphs_of_sessions_are_recorded_with_shapes_where_one_has_it_on(
    recorder: Recorder,
    *,
    is_on: bool,
) -> None:
    config = tf.compat.v1.ConfigProto()
    rewrites = config.graph_options.rewrite_options
    if is_on:
        rewrites.pin_to_host_optimization = rewriter_config_pb2.RewriterConfig.ON
    with tf.Graph().as_default():
        tf.zeros([4], name="z")
        for each in (config, None):
            tf.compat.v1.Session(config=each).run("z:0")
    recorder.evidence.finish()
    (graph,) = recorder.of_kind("function")
    assert graph.get("shapes") == ([[[4]]] if is_on else None)


@pytest.mark.parametrize("broken", ["pins_session", "pins_program"])
def test_a_fault_of_ours_is_noted_and_does_not_reach_the_program(
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    broken: str,
) -> None:
    monkeypatch.setattr(functions, broken, failing(AttributeError("renamed")))
    tf.function(lambda x: x + 1.0)(tf.ones([5]))
    with tf.Graph().as_default(), tf.compat.v1.Session():
        pass
    (note,) = recorder.of_kind("note")
    assert note["id"].startswith("recorder_failed:")
    assert len(recorder.of_kind("function")) == 1

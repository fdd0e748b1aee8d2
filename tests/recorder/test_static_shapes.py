"""The shapes of the tensors of graphs: which are read, and of which programs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import rewriter_config_pb2
from tensorflow.python.eager import context

from tests.recorder.ours import failing
from tests.recorder.test_attach import Recorder, recorder
from traceanalyzer.recorder import functions
from traceanalyzer.recorder.static_shapes import pins_program, pins_session, static_shapes

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["recorder"]  # a fixture

OPTION = "pin_to_host_optimization"


@pytest.fixture
def _switched_on() -> Iterator[None]:
    tf.config.optimizer.set_experimental_options({OPTION: True})
    yield
    tf.config.optimizer.set_experimental_options({OPTION: False})


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


def test_where_graphs_do_not_agree_nothing_is_told() -> None:
    graphs = []
    for size in (2, 3):
        with tf.Graph().as_default() as graph:
            tf.zeros([size], name="z")
            tf.constant(1.0, name="one")
        graphs.append(graph)
    assert static_shapes(["one"], graphs) == [[[]]]
    assert static_shapes(["z"], graphs[:1]) == [[[2]]]
    assert static_shapes(["z"], graphs) == [None]


def _session(**options: Any) -> tf.compat.v1.Session:  # noqa: ANN401
    config = tf.compat.v1.ConfigProto()
    rewrites = config.graph_options.rewrite_options
    rewrites.MergeFrom(rewriter_config_pb2.RewriterConfig(**options))
    with tf.Graph().as_default():
        return tf.compat.v1.Session(config=config)


def test_of_which_sessions() -> None:
    on, off = rewriter_config_pb2.RewriterConfig.ON, rewriter_config_pb2.RewriterConfig.OFF
    assert pins_session(_session(pin_to_host_optimization=on))
    assert pins_session(_session(optimizers=["pin_to_host"]))
    assert not pins_session(_session(pin_to_host_optimization=off, optimizers=["pruning"]))
    assert not pins_session(_session())


def test_of_programs_that_have_no_context_yet_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "_context", None)
    assert not pins_program(context)


@pytest.mark.usefixtures("_switched_on")
def test_of_programs_that_switched_it_on() -> None:
    tf.constant(1.0)
    assert pins_program(context)


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


def test_a_program_that_drops_tensorflow_switched_nothing_on(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "tensorflow")
    tf.function(lambda x: x + 1.0)(tf.ones([5]))
    assert not [n for n in recorder.of_kind("note") if "shapes" in n["id"]]
    (definition,) = recorder.of_kind("function")
    assert "shapes" not in definition


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

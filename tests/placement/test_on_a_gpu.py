"""Code that may behave differently on a GPU machine, and predictions that are in doubt then."""

from dataclasses import replace
from typing import Any

import pytest

import traceanalyzer as ta
from tests.causes.examples import blocker, line
from tests.emulator.captures import captured
from tests.placement.graphs import node
from tests.placement.test_program import Program
from traceanalyzer.capture_file.document import (
    OF_ANOTHER,
    OF_MACHINE,
    CaptureFile,
    CaughtError,
    Scope,
)
from traceanalyzer.capture_file.function_records import Definition
from traceanalyzer.health import trace_health
from traceanalyzer.placement.explanations import PlacementExplanation
from traceanalyzer.placement.keras import Keras
from traceanalyzer.placement.on_a_gpu import FreeChoices, differences

_STEP = "__inference_one_step_on_data_12"
_LAYER = [["words", "TextVectorization"]]
_LSTM = {"name": "encoder", "class": "LSTM", "activation": "tanh", "use_cudnn": "auto"}


def model(**facts: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """What the recorder notes of a model, by default one that XLA can compile."""
    plain = {"name": "m", "is_listed": True, "jit_compile": False, "not_compilable": []}
    return {**plain, **facts}


def with_models(*models: Any, is_defined: bool = True, **devices: Any) -> CaptureFile:  # noqa: ANN401 - JSON
    """A program with a step of Keras, and these models."""
    program = Program()
    program.function(_STEP, node("x", "NoOp"))
    definition = Definition(name=_STEP, nodes=("x",), frames=(-1,), scopes=(None,))
    return replace(
        program.capture_file(),
        devices={"keras_models": list(models), **devices},
        definitions=(definition,) if is_defined else (),
    )


def doubt_on_a_gpu(capture_file: CaptureFile, function: str) -> str:
    return Keras(capture_file).doubt(function, "x")


@pytest.mark.parametrize(
    ("models", "words", "is_doubtful"),
    [
        ((), "unless the program sets jit_compile=False", True),
        ((model(not_compilable=_LAYER),), "words (TextVectorization)", False),
        ((model(is_auto=True),), "the model m", True),
        ((model(is_auto=False),), "", False),
    ],
)
def test_a_step_of_keras_may_be_compiled_by_xla_on_a_gpu(
    models: tuple[dict[str, Any], ...], words: str, *, is_doubtful: bool
) -> None:
    capture_file = with_models(*models)
    said = " ".join(differences(capture_file))
    assert words in said
    assert bool(said) is bool(words)
    assert bool(doubt_on_a_gpu(capture_file, _STEP)) is is_doubtful


def test_what_becomes_of_recurrent_layers_with_a_gpu_is_said_layer_by_layer() -> None:
    dropping = {**_LSTM, "name": "decoder", "recurrent_dropout": 0.1}
    capture_file = with_models(model(recurrent=[_LSTM, dropping]))

    xla, fused, looped = differences(capture_file)

    assert "encoder (LSTM), decoder (LSTM)" in xla  # for both of them Keras leaves XLA out
    assert "encoder (LSTM) with cuDNN" in fused
    assert "decoder" not in fused
    assert "does not support recurrent_dropout=0.1" in looped
    assert not doubt_on_a_gpu(capture_file, _STEP)


@pytest.mark.parametrize(
    "capture_file",
    [
        with_models(model(not_compilable=_LAYER), model(name="other")),
        with_models(model(not_compilable=_LAYER, is_listed=False)),
        with_models(model(not_compilable=_LAYER), is_defined=False),
        with_models(*(model(not_compilable=_LAYER, name=str(k)) for k in range(20))),
        with_models("damaged", {"name": "m"}, model(not_compilable="words")),
    ],
    ids=["another model", "layers made later", "defined earlier", "too many", "damaged"],
)
def test_a_doubt_stays_where_a_step_may_be_of_a_model_that_can_be_compiled(
    capture_file: CaptureFile,
) -> None:
    assert doubt_on_a_gpu(capture_file, _STEP)


@pytest.mark.parametrize(
    ("strategies", "is_different"),
    [
        (["MirroredStrategy"], True),
        (["OneDeviceStrategy"], False),  # on the device that it is given
        (["_DefaultDistributionStrategyV1"], False),  # of a capture that took it for the program's
    ],
)
def test_strategies_go_by_the_gpus_there_are(strategies: list[str], *, is_different: bool) -> None:
    program = Program()
    program.function("__inference_train_12", node("x", "NoOp"))
    capture_file = replace(program.capture_file(), devices={"strategies": strategies})
    assert bool(list(differences(capture_file))) is is_different
    assert bool(FreeChoices(capture_file).doubt) is is_different


_PROGRAM = """\
import os
os.environ["KERAS_BACKEND"] = "tensorflow"
import keras, numpy as np, sys, tensorflow as tf

x, y = np.ones((16, 3), "float32"), np.zeros((16, 1), "float32")

def train(name, layers, **options):
    made = keras.Sequential([keras.Input((3,)), *layers, keras.layers.Dense(1)], name=name)
    made.compile("sgd", "mse", **options)
    made.fit(x, y, verbose=0)

train("hashed", [keras.layers.Hashing(8, name="buckets")])
if "more" in sys.argv:
    train("plain", [])
    train("unwilling", [], jit_compile=False)
    tf.random.set_seed(1)
    tf.config.experimental.enable_op_determinism()
    train("repeatable", [])
"""


@pytest.mark.slow
def test_keras_own_answer_is_recorded_and_its_reason_named() -> None:
    health = trace_health(captured(_PROGRAM, "more").run())
    said = [entry.message for entry in health if entry.id == "keras_xla"]

    reasons = dict(text.partition("the model ")[2].split(" with XLA", 1) for text in said)
    assert {*reasons} == {"hashed", "plain", "unwilling", "repeatable"}
    assert "buckets (Hashing)" in reasons["hashed"]
    assert "Keras compiles" in said[1]
    # Determinism was asked for after that model ran: what holds at the end is what is known.
    assert "deterministic" in reasons["repeatable"]


@pytest.mark.slow
def test_what_such_a_model_leaves_on_the_cpu_is_certain_as_keras_compiles_it_nowhere() -> None:
    of = ta.diagnose(captured(_PROGRAM, gpus=0).run()).on_a_gpu

    assert of is not None
    assert any("buckets (Hashing)" in text for text in of.program_differs)
    (found,) = [f for f in of.findings if f.cause == "library_cpu_placement"]
    assert found.certainty == "certain"


LINE = line(6)
CAPTURED = CaptureFile(tool="", host="h", complete=True, frames=(LINE,))
ASKS = {"gpu_questions": [["train.py", 3]]}
ERROR = CaughtError(
    where="no_device",
    type="InvalidArgumentError",
    message="Could not satisfy device specification '/device:GPU:0'. "
    "All available devices [/job:localhost/replica:0/task:0/device:CPU:0].",
    raised=(0,),
    handler=-1,
)


def explanation(hold: str = "request", **more: Any) -> PlacementExplanation:  # noqa: ANN401 - fields of `Blocker`
    return PlacementExplanation(
        type="MatMul",
        certainty="certain",
        blockers=(blocker(hold, "MatMul", scope_frame=LINE, **more),),
    )


def test_a_line_that_may_ask_for_another_device_is_named() -> None:
    captured = replace(CAPTURED, chosen=frozenset({0}))
    weighed = FreeChoices(captured).weighed(explanation())
    assert "train.py:6" in weighed.doubt
    assert weighed.certainty == "likely"
    (said,) = differences(captured)
    assert "at train.py:6 is computed" in said


@pytest.mark.parametrize(
    ("more", "words"), [({"devices": ASKS}, "train.py:3"), ({"errors": (ERROR,)}, "error")]
)
def test_a_program_that_goes_by_the_gpus_there_are_may_do_otherwise(
    more: dict[str, Any], words: str
) -> None:
    choices = FreeChoices(replace(CAPTURED, **more))
    for hold in ("request", "attributes"):
        weighed = choices.weighed(explanation(hold))
        assert words in weighed.doubt
        assert weighed.certainty == "likely"
    assert choices.weighed(explanation("no_kernel")) == explanation("no_kernel")  # wherever it runs


def test_a_computed_request_of_a_program_that_asks_for_gpus_is_only_possible() -> None:
    captured = replace(CAPTURED, devices=ASKS, chosen=frozenset({0}))
    weighed = FreeChoices(captured).weighed(explanation())
    assert weighed.certainty == "possible"
    assert "train.py:3" in weighed.doubt
    assert "train.py:6" in weighed.doubt
    assert [*differences(captured)] == [f"T{weighed.doubt[1:]}."]


@pytest.mark.parametrize(
    ("origin", "words"), [(OF_MACHINE, "may request the GPU instead"), (OF_ANOTHER, "of a tensor")]
)
def test_why_an_op_may_stay_on_the_cpu_is_said(origin: int, words: str) -> None:
    captured = replace(
        CAPTURED,
        devices=ASKS,
        scopes=(Scope(device="/CPU:0", frame=0, origin=origin),),
        chosen=frozenset({0} if origin == OF_MACHINE else ()),
    )
    choices = FreeChoices(captured)
    assert choices.unsure_scopes
    why = choices.why_unsure(explanation())
    assert "train.py:6" in why
    assert words in why


@pytest.mark.parametrize(
    ("file", "is_unsure"), [("framework/importer.py", True), ("ops/variables.py", False)]
)
def test_an_imported_graph_may_have_been_built_without_a_gpu(file: str, *, is_unsure: bool) -> None:
    """It names the CPU in full, as `tf.device(x.device)` does on a machine without a GPU."""
    copies = line(85, is_user=False, file=f"/site-packages/tensorflow/python/{file}")
    captured = replace(
        CAPTURED,
        frames=(copies,),
        scopes=(Scope(device="/job:localhost/device:CPU:0", frame=0, origin=OF_ANOTHER),),
    )
    assert bool(FreeChoices(captured).unsure_scopes) is is_unsure

"""The recorder in this very process: what is replaced, what it costs, and that all is put back."""

import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import rewriter_config_pb2
from tensorflow.python.client import session
from tensorflow.python.distribute import distribute_lib
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import atomic_function
from tensorflow.python.framework import errors_impl, ops
from tensorflow.python.ops import gen_math_ops

from tests.capturing.recorder.ours import failing
from traceanalyzer.capturing.recorder import program, signatures
from traceanalyzer.capturing.recorder.dumps import Dumps
from traceanalyzer.capturing.recorder.evidence import EvidenceRecorder
from traceanalyzer.capturing.recorder.hooks import JournalWriter
from traceanalyzer.capturing.recorder.origins import MACHINE

_CLASSES = (
    context.Context,
    context._EagerDeviceContext,  # noqa: SLF001
    distribute_lib.StrategyBase,
    errors_impl.ResourceExhaustedError,
    ops.Graph,
    session.BaseSession,
)


class CountingDumps(Dumps):
    """Dumps that are not asked for; counts what runs in a new way."""

    new_runs = 0

    def __enter__(self) -> None:
        self.new_runs += 1


class Recorder:
    """Evidence, with dumps that are not asked for."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "journal"
        journal = JournalWriter(str(self._path))
        self.called: list[str] = []
        self.dumps = CountingDumps(str(folder / "graphs"), journal)
        self.evidence = EvidenceRecorder(journal, self.dumps, self._called)

    def _called(self, name: str) -> None:
        self.called.append(name)

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        return [record for record in map(json.loads, lines) if record["kind"] == kind]

    def scopes(self) -> list[list[Any]]:
        return [value for record in self.of_kind("scopes") for value in record["values"]]


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    found = Recorder(tmp_path)
    found.evidence.install()
    yield found
    found.evidence.uninstall()


def _attributes() -> dict[tuple[str, str], Any]:
    """Return all that there is to replace: of modules of TensorFlow, and of classes."""
    owners = {n: m for n, m in sys.modules.items() if n.startswith("tensorflow.python.")}
    owners |= {f"{c.__module__}.{c.__qualname__}": c for c in _CLASSES}
    return {(n, key): value for n, owner in owners.items() for key, value in vars(owner).items()}


def _replaced(before: dict[tuple[str, str], Any]) -> set[tuple[str, str]]:
    now = _attributes()
    return {key for key, value in before.items() if now.get(key) is not value}


def test_all_that_is_replaced_is_put_back(tmp_path: Path) -> None:
    before = _attributes()
    recorder = Recorder(tmp_path)
    assert _replaced(before) == set()
    recorder.evidence.install()
    recorder.evidence.session_started(0)
    replaced = _replaced(before)
    assert {
        ("tensorflow.python.pywrap_tfe", "TFE_Py_FastPathExecute"),
        ("tensorflow.python.pywrap_tfe", "TFE_Py_Execute"),
        ("tensorflow.python.framework.ops.Graph", "_add_device_to_stack"),
        ("tensorflow.python.eager.context._EagerDeviceContext", "__enter__"),
        ("tensorflow.python.eager.context.Context", "list_physical_devices"),
        (atomic_function.__name__, "from_func_graph"),
    } <= replaced
    recorder.evidence.session_stopped()
    recorder.evidence.uninstall()
    assert _replaced(before) == set()


def test_graphs_are_expected_where_an_op_or_a_call_is_made_ready_for_the_first_time(
    recorder: Recorder,
) -> None:
    @tf.function
    def double(x: tf.Tensor, by: tf.Variable) -> tf.Tensor:
        return x * by

    def work(by: tf.Variable) -> int:
        before = recorder.dumps.new_runs
        tf.exp(x)
        double(x, by)
        return recorder.dumps.new_runs - before

    x = tf.constant(1.0)
    variables = [tf.Variable(2.0), tf.Variable(3.0)]
    assert work(variables[0]) == 1, "outside a session the function alone"
    recorder.evidence.session_started(0)
    assert work(variables[0]) == 1, "of the op nothing was known"
    assert work(variables[0]) == 0
    assert work(variables[1]) == 0, "another variable in the same place needs no other kernel"
    with tf.device("/CPU:0"):
        assert work(variables[1]) == 2
    recorder.evidence.session_stopped()


@pytest.mark.parametrize("part", ["add_op", "add_call", "is_new_instance"])
def test_what_fails_in_the_recorder_does_not_fail_in_the_program(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    @tf.function
    def double(x: tf.Tensor) -> tf.Tensor:
        return x * 2.0

    monkeypatch.setattr(recorder.evidence._eager._signatures, part, failing(LookupError(part)))  # noqa: SLF001
    recorder.evidence.session_started(0)
    x = tf.constant([1.0])
    assert tf.acosh(double(x)).numpy() == pytest.approx([1.3169579])
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.reshape(x, [2])
    recorder.evidence.session_stopped()
    notes = recorder.of_kind("note")
    assert {note["id"] for note in notes} <= {
        "recorder_failed:an eager op",
        "recorder_failed:an eager call",
    }
    assert notes
    assert all("LookupError" in note["message"] for note in notes)


def test_a_call_that_fails_outside_a_session_has_run_once(recorder: Recorder) -> None:
    calls = tf.Variable(0)

    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([calls.assign_add(1)]):
            return tf.debugging.check_numerics(x, "mine")

    step(tf.constant(1.0))
    with pytest.raises(tf.errors.InvalidArgumentError, match="mine"):
        step(tf.constant(float("nan")))
    assert calls.numpy() == 2
    assert not recorder.of_kind("note")


def _fails_in_a_scope() -> None:
    with tf.device("/nonsense"):
        tf.exp(1.0)


def _fails_in_a_function() -> None:
    tf.function(lambda x: tf.debugging.check_numerics(x, "mine"))(float("nan"))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="our frames stay there")
@pytest.mark.parametrize(
    "fails",
    [
        _fails_in_a_scope,
        _fails_in_a_function,
        lambda: tf.config.threading.set_inter_op_parallelism_threads(7),
        lambda: tf.raw_ops.AddV2(x=object(), y=1.0),
        lambda: tf.compat.v1.Session("nonsense://"),
    ],
)
def test_an_error_of_the_program_shows_no_frame_of_ours(
    recorder: Recorder, fails: Callable[[], None]
) -> None:
    recorder.evidence.session_started(0)
    with pytest.raises(Exception) as raised:  # noqa: PT011 - each its own
        fails()
    told = traceback.format_exception(raised.value)
    assert not [line for line in told if os.path.dirname(program.__file__) in line]  # noqa: PTH120
    assert not recorder.of_kind("note")


def test_of_too_many_signatures_only_the_type_is_told(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signatures, "_MOST_SIGNATURES", 2)
    x = tf.constant([1.0])
    recorder.evidence.session_started(0)
    for _ in range(2):
        tf.exp(x)
        tf.sinh(x)
        tf.tanh(x)
        tf.tanh(x)
        tf.cosh(x)
    recorder.evidence.session_stopped()
    found = recorder.of_kind("eager")[-1]["signatures"]
    assert [s["op"] for s in found] == ["Exp", "Sinh", "Tanh", "Cosh"]
    assert [s["frame"] >= 0 for s in found] == [True, True, False, False]
    assert [s["inputs"] != [] for s in found] == [True, True, False, False]
    assert [note["id"] for note in recorder.of_kind("note")] == ["signatures_left_out"]


@pytest.mark.parametrize(
    ("devices", "origin"), [(None, MACHINE), (["CPU:0"], None), (["/cpu:0"], None)]
)
def test_a_strategy_that_is_given_no_devices_has_those_of_the_machine(
    recorder: Recorder, devices: list[str] | None, origin: int | None
) -> None:
    recorder.evidence.session_started(0)
    tf.distribute.MirroredStrategy(devices).run(lambda: tf.exp([1.0]))
    recorder.evidence.session_stopped()
    signatures = recorder.of_kind("eager")[-1]["signatures"]
    scopes = recorder.scopes()
    assert {scopes[s["scopes"][0]][2] for s in signatures if s["op"] == "Exp"} == {origin}


def _session_of(config: Any) -> None:  # noqa: ANN401 - a ConfigProto, or anything
    with tf.Graph().as_default(), tf.compat.v1.Session(config=config):
        pass


def test_each_configuration_of_sessions_is_noted_once(recorder: Recorder) -> None:
    plain = tf.compat.v1.ConfigProto()
    config = tf.compat.v1.ConfigProto(device_count={"GPU": 0}, allow_soft_placement=True)
    rewrites = config.graph_options.rewrite_options
    rewrites.pin_to_host_optimization = rewriter_config_pb2.RewriterConfig.ON
    rewrites.disable_meta_optimizer = True
    rewrites.min_graph_nodes = -1
    rewrites.optimizers.extend(["pruning", "pin_to_host"])
    rewrites.auto_parallel.enable = True
    for each in (plain, config, plain):
        _session_of(each)
    first, second = recorder.of_kind("session_config")
    assert (first["soft_placement"], first["device_count"]) == (False, {})
    assert second == first | {
        "soft_placement": True,
        "device_count": {"GPU": 0},
        "rewrites": first["rewrites"]
        | {
            "pin_to_host_optimization": "ON",
            "disable_meta_optimizer": True,
            "min_graph_nodes": -1,
            "optimizers": ["pruning", "pin_to_host"],
        },
    }


def test_of_an_op_that_tensorflow_does_not_have_the_kernels_are_noted(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(tf.raw_ops, "Bincount")  # as if a library had brought them
    monkeypatch.delattr(tf.raw_ops, "Lgamma")
    recorder.evidence.session_started(0)
    tf.function(tf.math.lgamma)(tf.constant([2.0]))
    tf.raw_ops.Square(x=tf.constant([2.0]))
    gen_math_ops.bincount(tf.constant([1]), 2, tf.constant([1.0]))
    recorder.evidence.session_stopped()
    recorder.evidence.finish()
    (found,) = recorder.of_kind("kernels")
    kernels = found["kernels"]
    assert {kernel["op"] for kernel in kernels} == {"Bincount", "Lgamma"}
    assert {
        "op": "Lgamma",
        "device_type": "CPU",
        "constraints": {"T": ["float"]},
        "host_memory_args": [],
        "priority": 0,
        "label": "",
    } in kernels
    json.dumps(kernels)


def _product(device: str | None, size: int = 2) -> tuple[tf.Graph, tf.Tensor]:
    with tf.Graph().as_default() as graph, tf.device(device):
        return graph, tf.zeros([size, size], name="z")


def test_graphs_of_sessions_are_told_apart_and_those_that_are_alike_are_one(
    recorder: Recorder,
) -> None:
    for device in ("/cpu:0", None, "/cpu:0", None):
        graph, made = _product(device)
        tf.compat.v1.Session(graph=graph).run(made)
    recorder.evidence.finish()
    found = {f["name"]: f for f in recorder.of_kind("function")}
    scopes = recorder.scopes()
    assert {name: "cpu" in scopes[f["scopes"][0][0]][0] for name, f in found.items()} == {
        "": True,
        "unknown_graph#1": False,
    }

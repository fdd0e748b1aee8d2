"""The recorder in this very process: what is replaced, what it costs, and that all is put back."""

from __future__ import annotations

import base64
import json
import os
import pickle
import sys
import traceback
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.framework import graph_pb2
from tensorflow.core.protobuf import rewriter_config_pb2
from tensorflow.python import pywrap_tfe
from tensorflow.python.client import session
from tensorflow.python.distribute import distribute_lib
from tensorflow.python.eager import context
from tensorflow.python.eager.polymorphic_function import atomic_function
from tensorflow.python.framework import errors_impl, ops
from tensorflow.python.ops import gen_math_ops, gen_resource_variable_ops

from tests.recorder.ours import failing
from traceanalyzer.recorder import attach, scopes, session_configs, signatures
from traceanalyzer.recorder.attach import Attachment, Evidence
from traceanalyzer.recorder.graphs import Dumps, FirstCall
from traceanalyzer.recorder.journal import Journal
from traceanalyzer.recorder.origins import MACHINE
from traceanalyzer.recorder.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_CLASSES = (
    context.Context,
    context._EagerDeviceContext,  # noqa: SLF001
    distribute_lib.StrategyBase,
    errors_impl.ResourceExhaustedError,
    ops.Graph,
    session.BaseSession,
)


class Recorder:
    """Evidence, with dumps that are not asked for."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "journal"
        journal = Journal(str(self._path))
        self.called: list[str] = []
        self.first_calls = 0
        dumps = Dumps(str(folder / "graphs"), journal)
        dumps.first_call = self._first_call  # type: ignore[method-assign]
        self.evidence = Evidence(journal, dumps, self._called, counts_steps=False)

    def _called(self, name: str) -> None:
        self.called.append(name)

    def _first_call(self) -> FirstCall:
        self.first_calls += 1
        return FirstCall(lambda: None, lambda: None)

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        lines = self._path.read_text().splitlines() if self._path.exists() else []
        return [record for record in map(json.loads, lines) if record["kind"] == kind]

    def sequences(self) -> list[tuple[int, list[str]]]:
        """Return the session and the ops of each sequence."""
        eager = self.of_kind("eager")[-1]
        found = []
        for each in eager["sequences"]:
            numbers, counts = (
                np.frombuffer(base64.b64decode(each[key]), "<u4")
                for key in ("signatures", "counts")
            )
            names = [eager["signatures"][k]["op"] for k in np.repeat(numbers, counts)]
            found.append((each["session"], names))
        return found


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
        ("tensorflow.python.eager.context.Context", "set_memory_growth"),
        (atomic_function.__name__, "from_func_graph"),
    } <= replaced
    recorder.evidence.session_stopped()
    recorder.evidence.uninstall()
    assert _replaced(before) == set()


def test_outside_a_session_eager_ops_are_run_by_tensorflow_itself(tmp_path: Path) -> None:
    original = pywrap_tfe.TFE_Py_FastPathExecute
    recorder = Recorder(tmp_path)
    recorder.evidence.install()
    try:
        for index in range(2):
            assert gen_math_ops.pywrap_tfe.TFE_Py_FastPathExecute is original
            recorder.evidence.session_started(index)
            assert gen_math_ops.pywrap_tfe.TFE_Py_FastPathExecute is not original
            recorder.evidence.session_stopped()
        assert gen_math_ops.pywrap_tfe.TFE_Py_FastPathExecute is original
    finally:
        recorder.evidence.uninstall()
    assert gen_resource_variable_ops.pywrap_tfe is pywrap_tfe


def test_sessions_have_sequences_of_their_own(recorder: Recorder) -> None:
    x = tf.constant([1.0])
    tf.exp(x)
    for index, op in enumerate((tf.tanh, tf.sinh)):
        recorder.evidence.session_started(index)
        assert recorder.evidence.eager_ops == 0
        op(x)
        op(x)
        assert recorder.evidence.eager_ops == 2
        recorder.evidence.session_stopped()
        tf.exp(x)
    assert recorder.sequences() == [(0, ["Tanh"] * 2), (1, ["Sinh"] * 2)]
    assert len(recorder.of_kind("eager")) == 2


def test_what_was_made_outside_a_session_is_known_in_it(recorder: Recorder) -> None:
    variable = tf.Variable([1.0, 2.0], name="early")
    recorder.evidence.session_started(0)
    tf.exp(variable)
    variable.assign_add([1.0, 1.0])
    recorder.evidence.session_stopped()
    assert recorder.sequences() == [(0, ["ReadVariableOp", "Exp", "AssignAddVariableOp"])]
    eager = recorder.of_kind("eager")[-1]
    (read,) = [s for s in eager["signatures"] if s["op"] == "ReadVariableOp"]
    made = eager["resources"][read["inputs"][0]["resource"]]
    assert (made["name"], made["bytes"]) == ("early", 8)
    assert eager["signatures"][made["signature"]]["op"] == "VarHandleOp"


def test_of_one_line_in_other_scopes_each_is_told(recorder: Recorder) -> None:
    def inside() -> None:
        with tf.device("CPU:0"):
            tf.square(2.0)

    recorder.evidence.session_started(0)
    inside()
    with tf.device("CPU:0"):
        inside()
        inside()
    recorder.evidence.session_stopped()
    eager = recorder.of_kind("eager")[-1]
    found = [s for s in eager["signatures"] if s["op"] == "Square"]
    assert [len(signature["scopes"]) for signature in found] == [1, 2]
    assert len({signature["scope_frame"] for signature in found}) == 1
    outer = eager["frames"][found[1]["scopes"][1][1]]
    assert outer[2] == "test_of_one_line_in_other_scopes_each_is_told"


def test_of_too_many_scopes_the_innermost_is_told(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scopes, "_MOST_CHAINS", 2)
    recorder.evidence.session_started(0)
    with tf.device("CPU:0"):
        tf.square(2.0)
        with tf.device("CPU:0"):
            tf.square(2.0)
        tf.square(2.0)
    tf.square(2.0)
    recorder.evidence.session_stopped()
    found = [s for s in recorder.of_kind("eager")[-1]["signatures"] if s["op"] == "Square"]
    assert [len(signature["scopes"]) for signature in found] == [1, 0, 1, 0]
    assert [signature["scope_frame"] >= 0 for signature in found] == [True, True, True, False]


def test_calls_of_functions_are_told_in_and_outside_of_sessions(recorder: Recorder) -> None:
    @tf.function
    def double(x: tf.Tensor) -> tf.Tensor:
        return x * 2.0

    x = tf.constant(1.0)
    double(x)
    recorder.evidence.session_started(0)
    double(x)
    recorder.evidence.session_stopped()
    (defined,) = recorder.of_kind("function")
    assert recorder.called == [defined["name"]] * 2
    assert recorder.sequences() == [(0, [defined["name"]])]


def test_graphs_are_expected_where_an_op_or_a_call_is_made_ready_for_the_first_time(
    recorder: Recorder,
) -> None:
    @tf.function
    def double(x: tf.Tensor, by: tf.Variable) -> tf.Tensor:
        return x * by

    def work(by: tf.Variable) -> int:
        before = recorder.first_calls
        tf.exp(x)
        double(x, by)
        return recorder.first_calls - before

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


@pytest.mark.parametrize("part", ["add_op", "add_call", "is_new_way"])
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


def _fails_in_a_scope_of_a_graph() -> None:
    with tf.Graph().as_default(), tf.device("/nonsense"):
        tf.exp(1.0)


def _fails_in_a_function() -> None:
    tf.function(lambda x: tf.debugging.check_numerics(x, "mine"))(float("nan"))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="our frames stay there")
@pytest.mark.parametrize("in_session", [False, True], ids=["outside", "in a session"])
@pytest.mark.parametrize(
    "fails",
    [
        _fails_in_a_scope,
        _fails_in_a_scope_of_a_graph,
        _fails_in_a_function,
        lambda: tf.config.threading.set_inter_op_parallelism_threads(7),
        lambda: tf.raw_ops.AddV2(x=object(), y=1.0),
        lambda: tf.raw_ops.VarHandleOp(dtype=object(), shape=[]),
        lambda: tf.linalg.matmul(tf.ones([2, 2]), tf.ones([3, 3])),
        lambda: tf.compat.v1.Session("nonsense://"),
    ],
)
def test_an_error_of_the_program_shows_no_frame_of_ours(
    recorder: Recorder, fails: Callable[[], None], *, in_session: bool
) -> None:
    tf.exp(1.0)
    if in_session:
        recorder.evidence.session_started(0)
    with pytest.raises(Exception) as raised:  # noqa: PT011 - each its own
        fails()
    told = traceback.format_exception(raised.value)
    assert not [line for line in told if os.path.dirname(attach.__file__) in line]  # noqa: PTH120
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
    assert recorder.sequences() == [(0, ["Exp", "Sinh", "Tanh", "Tanh", "Cosh"] * 2)]
    found = recorder.of_kind("eager")[-1]["signatures"]
    assert [s["op"] for s in found] == ["Exp", "Sinh", "Tanh", "Cosh"]
    assert [s["frame"] >= 0 for s in found] == [True, True, False, False]
    assert [s["inputs"] != [] for s in found] == [True, True, False, False]
    assert [note["id"] for note in recorder.of_kind("note")] == ["signatures_left_out"]


def test_a_part_that_cannot_be_installed_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(tmp_path)

    fail = failing(AttributeError("renamed"))
    monkeypatch.setattr(recorder.evidence._eager, "install", fail)  # noqa: SLF001
    recorder.evidence.install()
    try:
        recorder.evidence.session_started(0)
        tf.function(lambda x: x + 1.0)(tf.constant(1.0))
        recorder.evidence.session_stopped()
        recorder.evidence.finish()
    finally:
        recorder.evidence.uninstall()
    (note,) = recorder.of_kind("note")
    assert note["id"] == "recorder_failed:EagerRecorder"
    assert len(recorder.of_kind("function")) == 1
    assert len(recorder.of_kind("devices")) == 1


class Recording:
    """Stands in for the real one, and fails at its end."""

    def __init__(self, settings: Settings, journal: Journal, evidence: Evidence) -> None:
        del settings, journal
        self.evidence = evidence

    def begin(self) -> None:
        self.evidence.session_started(0)

    def before_function_call(self, name: str) -> None: ...

    def finish(self, reason: str) -> None:
        failing(OSError(reason))()


@pytest.fixture
def attachment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Attachment, Callable[[], list[dict[str, Any]]]]:
    monkeypatch.setattr(attach, "Recording", Recording)
    settings = Settings(work=str(tmp_path), logdir=str(tmp_path), run="run", host="host")
    journal = Path(settings.journal)
    return Attachment(settings, Journal(str(journal))), lambda: [
        json.loads(line) for line in journal.read_text().splitlines()
    ]


def test_a_recording_that_cannot_end_leaves_the_evidence(
    attachment: tuple[Attachment, Callable[[], list[dict[str, Any]]]],
) -> None:
    attached, journal = attachment
    original = pywrap_tfe.TFE_Py_FastPathExecute
    attached.after_tensorflow()
    assert pywrap_tfe.TFE_Py_FastPathExecute is not original
    attached.finish("exit")
    assert pywrap_tfe.TFE_Py_FastPathExecute is original
    kinds = [record["kind"] for record in journal()]
    assert kinds == ["attached", "environment", "note", "eager", "devices", "finished"]
    attached.finish("again")  # there is nothing left to end
    assert journal()[-1] == {"kind": "finished", "reason": "again"}


def test_a_tensorflow_that_is_too_old_is_left_alone(
    attachment: tuple[Attachment, Callable[[], list[dict[str, Any]]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attached, journal = attachment
    before = _attributes()
    monkeypatch.setattr(tf, "__version__", "2.11.1")
    attached.after_tensorflow()
    assert _replaced(before) == set()
    attached.finish("exit")
    assert [record.get("id", record["kind"]) for record in journal()] == [
        "attached",
        "tensorflow_too_old",
        "finished",
    ]


def test_strategies_are_noted_once_each(recorder: Recorder) -> None:
    for _ in range(2):
        tf.distribute.OneDeviceStrategy("CPU:0")
    recorder.evidence.finish()
    (devices,) = recorder.of_kind("devices")
    assert devices["strategies"] == ["OneDeviceStrategy"]


def test_the_default_strategy_of_sessions_is_not_one_of_the_program(recorder: Recorder) -> None:
    with tf.Graph().as_default():
        tf.distribute.get_strategy()
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
        weight = tf.compat.v1.get_variable("w", [], use_resource=True)
        optimizer.minimize(weight**2, var_list=[weight])
    recorder.evidence.finish()
    (devices,) = recorder.of_kind("devices")
    assert devices["strategies"] == []


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
    assert {s["scopes"][0][2] for s in signatures if s["op"] == "Exp"} == {origin}


@pytest.mark.usefixtures("recorder")
def test_a_device_is_a_plain_text() -> None:
    """What is noted of it must not show."""
    device = tf.Variable(1.0).device
    assert type(device) is str
    assert device == tf.constant(1.0).device
    assert pickle.loads(pickle.dumps(device)) == device  # noqa: S301 - our own


def _session_of(config: Any) -> None:  # noqa: ANN401 - a ConfigProto, or anything
    with tf.Graph().as_default(), tf.compat.v1.Session(config=config):
        pass


def test_each_configuration_of_sessions_is_noted_once(recorder: Recorder) -> None:
    plain = tf.compat.v1.ConfigProto()
    config = tf.compat.v1.ConfigProto(
        device_count={"GPU": 0}, allow_soft_placement=True, log_device_placement=True
    )
    config.gpu_options.per_process_gpu_memory_fraction = 0.25
    rewrites = config.graph_options.rewrite_options
    rewrites.pin_to_host_optimization = rewriter_config_pb2.RewriterConfig.ON
    rewrites.disable_meta_optimizer = True
    rewrites.min_graph_nodes = -1
    rewrites.optimizers.extend(["pruning", "pin_to_host"])
    rewrites.auto_parallel.enable = True
    for each in (plain, config, plain):
        _session_of(each)
    first, second = recorder.of_kind("session_config")
    assert first == {
        "kind": "session_config",
        "is_own": True,
        "is_local": True,
        "device_types": ["CPU"],
        "soft_placement": False,
        "log_placement": False,
        "device_count": {},
        "memory_fraction": None,
        "rewrites": first["rewrites"],
    }
    assert second == {
        "kind": "session_config",
        "is_own": True,
        "is_local": True,
        "device_types": ["CPU"],
        "soft_placement": True,
        "log_placement": True,
        "device_count": {"GPU": 0},
        "memory_fraction": 0.25,
        "rewrites": first["rewrites"]
        | {
            "pin_to_host_optimization": "ON",
            "disable_meta_optimizer": True,
            "min_graph_nodes": -1,
            "optimizers": ["pruning", "pin_to_host"],
        },
    }


def test_a_session_that_cannot_be_read_is_made_all_the_same(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_configs, "_facts", failing(AttributeError("_config")))
    _session_of(None)
    assert [note["id"] for note in recorder.of_kind("note")] == [
        "recorder_failed:the configuration of a session"
    ]


def test_no_more_configurations_are_noted_than_can_be_told(recorder: Recorder) -> None:
    for count in range(1, 40):
        _session_of(tf.compat.v1.ConfigProto(device_count={"CPU": count}))
    assert len(recorder.of_kind("session_config")) == 20


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


def test_of_tensorflows_own_ops_none_are(recorder: Recorder) -> None:
    recorder.evidence.session_started(0)
    tf.function(tf.math.lgamma)(tf.constant([2.0]))
    recorder.evidence.session_stopped()
    recorder.evidence.finish()
    assert recorder.of_kind("kernels") == []


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
    assert {name: "cpu" in f["scope_pool"][0][0] for name, f in found.items()} == {
        "": True,
        "unknown_graph#1": False,
    }


def test_what_a_session_raises_has_no_frame_of_ours(recorder: Recorder) -> None:
    del recorder
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        wrong = tf.debugging.Assert(tf.constant(value=False), ["wrong"])
        with pytest.raises(tf.errors.InvalidArgumentError) as raised:
            session.run(wrong)
    files = [str(entry.path) for entry in raised.traceback]
    assert not [file for file in files if "traceanalyzer/recorder" in file]


def test_an_old_tensorflows_text_is_turned_into_protos(tmp_path: Path) -> None:
    folder = tmp_path / "graphs"
    folder.mkdir()
    start = 1_700_000_000
    graphs = {
        "first": ("x", "y"),
        "again": ("x", "y"),
        "op": ("Exp",),
        "unplaced": ("a", "b"),
        "session": ("v1",),
    }
    for k, (label, nodes) in enumerate(graphs.items()):
        graph = graph_pb2.GraphDef(node=[{"name": n, "op": "NoOp"} for n in nodes])
        name = f"pflr_optmz_host-1a2b-77-{(start + k) * 10**6:x}placer_"
        (folder / f"{name}input.pbtxt").write_text(text_format.MessageToString(graph))
        if label != "unplaced":
            for node in graph.node:
                node.device = label
            (folder / f"{name}output.pbtxt").write_text(text_format.MessageToString(graph))
    journal = Journal(str(tmp_path / "journal"))
    Dumps(str(folder), journal).finish(
        {
            "f_1": frozenset({"x", "y"}),
            "f_2": frozenset({"x", "y"}),
            "g": frozenset({"a", "b"}),
            "": frozenset({"v1"}),
        },
        {"f_1": start - 0.5, "f_2": start + 0.5},
    )
    assert not (tmp_path / "journal").exists()
    found = {
        path.name.partition("placer_output")[0]: graph_pb2.GraphDef.FromString(path.read_bytes())
        for path in folder.glob("*placer_output*.pb")
    }
    assert {name: graph.node[0].device for name, graph in found.items()} == {
        "f_1": "first",
        "f_2": "again",
        "unknown_graph": "session",
    }
    assert len(list(folder.iterdir())) == 2 * len(found)


def test_broken_text_stops_no_other(tmp_path: Path) -> None:
    folder = tmp_path / "graphs"
    folder.mkdir()
    for name, text in (("a", "node { name:"), ("b", 'node { name: "x" op: "NoOp" }')):
        for end in ("input", "output"):
            (folder / f"{name}placer_{end}.pbtxt").write_text(text)
    journal = Journal(str(tmp_path / "journal"))
    Dumps(str(folder), journal).finish({"f": frozenset({"x"})}, {})
    assert {p.name for p in folder.iterdir()} == {"fplacer_input_1.pb", "fplacer_output_1.pb"}
    assert "ParseError" in (tmp_path / "journal").read_text()


@pytest.mark.parametrize(
    ("installed", "version"),
    [
        (["tensorflow-2.21.0.dist-info", "tensorflow_datasets-4.9.2.dist-info"], (2, 21)),
        (["tensorflow_cpu-2.12.1.dist-info", "tensorflow_estimator-2.13.0.dist-info"], (2, 12)),
        (["tf_nightly-2.22.0.dev20260101.dist-info"], (2, 22)),
        (["tensorflow_intel-2.12.0.dist-info", "tensorflow-2.12.0.dist-info"], (2, 12)),
        (["tensorflow_io_gcs_filesystem-0.37.1.dist-info"], ()),
    ],
)
def test_the_version_is_known_before_the_import(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    installed: list[str],
    version: tuple[int, ...],
) -> None:
    for name in (*installed, "tensorflow"):
        (tmp_path / name).mkdir()
    spec = ModuleSpec("tensorflow", None, origin=os.fspath(tmp_path / "tensorflow" / "__init__.py"))
    monkeypatch.setattr(attach.importlib.util, "find_spec", lambda _: spec)
    assert attach._version_of(attach._installed_version()) == version  # noqa: SLF001

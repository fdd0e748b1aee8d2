"""Traces without a capture file, with graphs in events files beside them, of real programs."""

import struct
import time
from pathlib import Path
from typing import Final

import pytest

import traceanalyzer as ta
from tests.corpus import CORPUS, needs_corpus
from tests.emulator.captures import captured as captured_program
from tests.emulator.oracle import the_oracle
from tests.labelled import HELD_OUT, PROGRAMS, QUESTIONS, LabelledProgram
from tests.labelled.calibration import Calibration, compared, without_capture_file
from tests.labelled.scoring import recorded
from tests.traces import call, executor, host, line, op, us, write, xspace
from traceanalyzer.capture_file.graph_files import event_graphs
from traceanalyzer.changes import changes_of
from traceanalyzer.health import trace_health
from traceanalyzer.trace.discovery import find_runs
from traceanalyzer.trace.tfevents import recorded_graphs

_ALL: Final = {program.name: program for program in (*PROGRAMS, *HELD_OUT, *QUESTIONS)}
_QUICK: Final = "nightly_evaluation"
E40: Final = CORPUS / "tfgpu-e4040-2023-hd2551"


def _captured(program: LabelledProgram, how: str = "capture") -> Path:
    return recorded(program, how=f"graphs_in_fork:{how}").logdir


def _answers(program: LabelledProgram, captured: Path, bare: Path) -> Calibration:
    return compared(program, ta.load(captured), ta.load(bare))


@pytest.fixture(scope="module")
def captured() -> Path:
    return _captured(_ALL[_QUICK])


def test_a_graph_in_an_events_file_explains_what_the_trace_does_not(
    captured: Path, tmp_path: Path
) -> None:
    found = _answers(_ALL[_QUICK], captured, without_capture_file(captured, tmp_path))
    assert found.ops >= 6
    assert found.right == found.answered == found.ops
    first, *_, last = changes_of(ta.diagnose(ta.load(tmp_path)))
    assert (first.certainty, last.kind) == ("likely", "record")


@pytest.fixture(scope="module")
def tiles() -> Path:
    return _captured(_ALL["tile_counter"])


_CALLED_ON_CPU: Final = """
import tensorflow as tf

variable = tf.Variable(tf.ones([8, 8]))

@tf.function
def counts(ids):
    variable.assign_add(tf.ones([8, 8]))
    return tf.cumsum(ids * 3) + tf.math.floordiv(ids, 7)

ids = tf.range(8, dtype=tf.int64)
for _ in range(3):
    with tf.device("/CPU:0"):
        counts(ids)
"""


def test_the_ops_of_a_function_called_on_the_cpu_were_not_moved(tmp_path: Path) -> None:
    logs = captured_program(_CALLED_ON_CPU, how="graphs_in_fork:capture").logdir
    run = ta.load(without_capture_file(logs, tmp_path))
    found = {finding.cause for finding in ta.diagnose(run).findings}
    assert found == {"caller_device_scope_cpu"}


def test_graphs_of_another_program_are_not_used(
    captured: Path, tiles: Path, tmp_path: Path
) -> None:
    run = ta.load(without_capture_file(captured, tmp_path, events=tiles))
    assert "unfitting_graphs" in {each.id for each in trace_health(run)}
    assert run.ops["requested_device"].isna().all()


def test_a_damaged_events_file_leaves_the_trace_as_it_is(captured: Path, tmp_path: Path) -> None:
    bare = without_capture_file(captured, tmp_path)
    (events,) = bare.glob("events.out.tfevents.*")
    (run,) = find_runs(bare)
    whole = events.read_bytes()
    assert event_graphs(run, None) is not None
    for length in range(0, len(whole), max(1, len(whole) // 50)):
        events.write_bytes(whole[:length])
        event_graphs(run, None)
        events.write_bytes(whole[:length] + bytes(reversed(whole[length:])))
        event_graphs(run, None)
    assert len(ta.load(bare).ops)


@pytest.mark.slow
def test_events_files_of_many_gigabytes_are_not_read(captured: Path, tmp_path: Path) -> None:
    bare = without_capture_file(captured, tmp_path)
    record = struct.pack("<QI", 64 << 20, 0)
    for number in range(16):
        with (bare / f"events.out.tfevents.{number}.host").open("wb") as file:
            for at in range(16):
                file.seek(at * ((64 << 20) + 16))
                file.write(record)
    (run,) = find_runs(bare)
    begin = time.process_time()
    event_graphs(run, None)
    assert time.process_time() - begin < 10


@needs_corpus
def test_each_run_in_a_folder_gets_the_graph_of_its_own_program() -> None:
    """Seven runs lie there, of two models; two have only a GraphDef."""
    sizes = {}
    for name in ("2023_11_07_18_19_33", "2023_11_07_18_18_59", "2023_11_07_18_24_27"):
        (host,) = ta.load(E40, name).hosts
        assert host.tables.joined is not None
        graphs = host.tables.joined.graphs
        assert graphs is not None
        sizes[name] = [len(f.instances[0].input) for f in graphs.functions]
    assert [*sizes.values()] == [[300], [298], [473]]


def _bare(captured: Path, folder: Path) -> Path:
    """Copy a trace without what lies beside it."""
    return without_capture_file(captured, folder, events=folder)


def _serialized(captured: Path) -> bytes:
    """Return the largest graph beside a trace."""
    (run,) = find_runs(captured)
    return max((bytes(data) for _, data, _ in recorded_graphs(run)), key=len)


def test_a_named_graph_explains_what_the_trace_does_not(captured: Path, tmp_path: Path) -> None:
    data = _serialized(captured)
    file = tmp_path / "graph"
    file.write_bytes(data)
    run = ta.load(_bare(captured, tmp_path / "bare"), graphs=[file])
    certain = {finding.certainty for finding in ta.diagnose(run).findings}
    assert "likely" in certain
    assert run.ops["requested_device"].notna().any()


_SERVING: Final = """
import sys
import tensorflow as tf

class Ranking(tf.Module):
    def __init__(self):
        self.weights = tf.Variable(tf.ones([8, 4]))

    @tf.function(input_signature=[tf.TensorSpec([None, 8])])
    def rank(self, rows):
        scores = tf.matmul(rows, self.weights)
        with tf.device("/CPU:0"):
            shares = tf.nn.softmax(scores)
        return tf.matmul(shares, self.weights, transpose_b=True)

tf.saved_model.save(Ranking(), sys.argv[1])
ranking = tf.saved_model.load(sys.argv[1])
for _ in range(3):
    ranking.rank(tf.ones([4, 8]))
"""


@pytest.mark.slow
def test_a_saved_model_explains_a_program_that_serves_it(tmp_path: Path) -> None:
    script, logs, model = (tmp_path / name for name in ("serve.py", "logs", "model"))
    script.write_text(_SERVING)
    capture = "tests.labelled.captured_in_fork:capture"
    outcome = the_oracle().run(capture, str(script), str(logs), 2, str(model))
    assert outcome.exit_code == 0, outcome.error or outcome.stderr
    run = ta.load(_bare(logs, tmp_path / "bare"), graphs=[model])
    # On a CPU with AVX-512, TensorFlow replaces Softmax by oneDNN's.
    (softmax,) = run.ops["op_id"][run.ops["type"].str.removeprefix("_Mkl") == "Softmax"]
    (finding,) = (f for f in ta.diagnose(run).findings if softmax in f.op_ids)
    assert (finding.cause, finding.certainty) == ("explicit_cpu_placement", "likely")
    assert finding.sub_reason == "request_without_a_line"


def test_an_op_that_onednn_replaced_fits_its_node(tmp_path: Path) -> None:
    """A function with one op: its type has to be that of the node, or to stand for it."""
    fields = {0x0A: b"shares", 0x12: b"Softmax", 0x22: b"/device:CPU:0"}
    node = b"".join(bytes([tag, len(value)]) + value for tag, value in fields.items())
    file = tmp_path / "graph"
    file.write_bytes(bytes([0x0A, len(node)]) + node)

    def traced(op_type: str) -> Path:
        ops = executor(us(20, 60))(op("shares", op_type, us(30, 40)))
        python = line("python")(call("__inference_rank_5", us(10, 80))(ops))
        return write(tmp_path / op_type, xspace(host(python)))

    run = ta.load(traced("_MklSoftmax"), graphs=[file])
    assert "/device:CPU:0" in {*run.ops["requested_device"]}
    with pytest.raises(ta.TraceAnalyzerError, match="fits this trace"):
        ta.load(traced("Cumsum"), graphs=[file])


def test_a_file_without_a_graph_of_the_program_is_refused(captured: Path, tmp_path: Path) -> None:
    bare, file = _bare(captured, tmp_path / "bare"), tmp_path / "graph"
    data = _serialized(captured)
    node = b"\x0a\x0c\x0a\x05other\x12\x03Foo"
    cases = {b"": "not a graph", data[:-100]: "cut short", b"node {\n": "as_text=False"}
    for content, problem in {**cases, node: "0 of"}.items():
        file.write_bytes(content)
        with pytest.raises(ta.TraceAnalyzerError, match=problem):
            ta.load(bare, graphs=[file])
    with pytest.raises(ta.TraceAnalyzerError, match="no such file"):
        ta.load(bare, graphs=[tmp_path])
    file.write_bytes(data)
    with pytest.raises(ta.TraceAnalyzerError, match="leave them out"):
        ta.load(captured, graphs=[file])


@pytest.mark.slow
@pytest.mark.parametrize(
    "how", ["capture", "capture_with_graph_defs"], ids=["RunMetadata", "GraphDef"]
)
def test_nearly_all_likely_answers_are_right(how: str, tmp_path: Path) -> None:
    """Counts ops: the time of one op that runs once can be a tenth of all time, or nothing.

    On a GPU, kernels name more ops, so more functions are recognized than here.
    """
    found = []
    for program in (*HELD_OUT, *QUESTIONS):
        # Writing a RunMetadata starts TensorFlow, and then its devices cannot be configured.
        is_configured = how == "capture" and "tf.config.set_" in program.source
        if "tf.function" in program.source and not is_configured:
            folder = _captured(program, how)
            bare = without_capture_file(folder, tmp_path / program.name)
            found.append(_answers(program, folder, bare))
    total = sum(found, start=Calibration())
    print(how, total)  # noqa: T201 - the calibration
    assert total.ops > 30
    assert total.wrong_certain == 0
    assert total.answered >= 0.93 * total.ops
    assert total.right >= 0.93 * total.answered, total.misses


def test_a_full_name_of_the_cpu_alone_is_no_proof_of_a_strategy(tmp_path: Path) -> None:
    program = """\
import tensorflow as tf

with tf.device("/CPU:0"):
    small = tf.Variable(tf.ones([64, 64]))

@tf.function
def step(x):
    with tf.device(small.device):
        product = tf.matmul(x, x)
    return tf.reduce_sum(tf.matmul(product, x))

for _ in range(2):
    step(tf.ones([64, 64]))
"""
    logdir = captured_program(program, how="graphs_in_fork:capture").logdir
    run = ta.load(without_capture_file(logdir, tmp_path))
    (found,) = (f for f in ta.diagnose(run).findings if f.sub_reason == "full_name")
    assert found.certainty == "possible"
    assert "may put MatMul" in found.title

"""`traceanalyzer compare`: planted changes are named, and none is invented."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pytest
from click.testing import CliRunner

import traceanalyzer as ta
from tests.corpus import CORPUS, needs_corpus
from tests.emulator.captures import captured
from tests.samples import REPORTS
from tests.test_costs import run_of
from tests.traces import host, op, thread, us, write, xspace
from traceanalyzer.cli import cli
from traceanalyzer.compare.differences import Comparison, compare
from traceanalyzer.compare.output import page_of
from traceanalyzer.compare.reports import read_report
from traceanalyzer.compare.step_times import step_time_change
from traceanalyzer.diagnosis import diagnose
from traceanalyzer.model import Health, Report, TfVersion
from traceanalyzer.model.figures import TransferEdge, TransferGraph
from traceanalyzer.report.assemble import assemble
from traceanalyzer.run import Run

RECOMMENDER: Final = REPORTS / "recommender" / "report.json"


@pytest.fixture(scope="module")
def report() -> Report:
    return read_report(RECOMMENDER)


def _renamed(report: Report, rename: Callable[[dict[str, Any]], dict[str, Any]]) -> Report:
    ops = report.tables.ops
    rows = tuple(tuple(rename(row).values()) for row in ops.records())
    return replace(report, tables=replace(report.tables, ops=replace(ops, rows=rows)))


def test_a_run_does_not_differ_from_itself(report: Report) -> None:
    assert compare(report, report).differences == ()


def test_renumbered_names_are_the_same_ops(report: Report) -> None:
    def renumber(row: dict[str, Any]) -> dict[str, Any]:
        name = "/".join(f"{part}_7" for part in row["name"].split("/"))
        return {**row, "name": name, "op_id": row["op_id"]}

    assert compare(report, _renamed(report, renumber)).differences == ()


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"tf_version": TfVersion(value="2.18.0", source=None)}, "2.18.0"),
        ({"command": "traceanalyzer capture program.py --batch 128"}, "--batch 128"),
    ],
)
def test_another_tensorflow_and_another_batch_size_are_named(
    report: Report, changed: dict[str, Any], named: str
) -> None:
    (only,) = compare(report, replace(report, run=replace(report.run, **changed))).differences
    assert (only.kind, named in only.text) == ("environment", True)


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ("[32,8];[8]", "[64,8];[8]", "different batch size"),
        ("[32,8];[8]", "[32,9];[9]", "9 instead of 8"),
        ("[32,8];[8]", "[32,2,4];[8]", "[32,2,4]"),
        ("[32,8];?", "[32,8];[8]", ""),
        ("[32,8];[8]", "", "only those of the base run"),
    ],
)
def test_changed_shapes_are_named_and_a_batch_size_only_if_all_agree(
    report: Report, before: str, after: str, named: str
) -> None:
    base, new = (_renamed(report, partial(_with_shapes, shapes)) for shapes in (before, after))
    found = compare(base, new).differences
    assert [(each.kind, named in each.text) for each in found] == [("shapes", True)] * bool(named)
    assert any("batch" in each.text for each in found) == ("batch" in named)


def _with_shapes(shapes: str, row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "input_shapes": shapes}


def test_another_batch_size_of_a_dataset_is_named() -> None:
    base = read_report(REPORTS / "recommender" / "report.json")
    assert base.input_pipeline is not None
    stages = base.input_pipeline.stages
    assert any(row["batch_size"] for row in stages.records())
    doubled = [{**row, "batch_size": 2 * (row["batch_size"] or 0)} for row in stages.records()]
    table = replace(stages, rows=tuple(tuple(row.values()) for row in doubled))
    new = replace(base, input_pipeline=replace(base.input_pipeline, stages=table))
    assert {each.kind for each in compare(base, new).differences} == {"shapes"}


def test_other_output_files_are_no_difference(report: Report) -> None:
    run = report.run
    words = ("--logdir logs/b --no-report", "--report=b.html --logdir 'my logs'")
    base, new = (replace(run, command=f"traceanalyzer capture {w} train.py") for w in words)
    assert compare(replace(report, run=base), replace(report, run=new)).differences == ()


def test_new_transfers_are_named(report: Report) -> None:
    edge = TransferEdge(
        source="gpu:0", target="host", direction="d2h", bytes=7_000, count=7, total_us=70.0
    )
    graph = TransferGraph(nodes=(), edges=(), devices=(edge,))
    (only,) = compare(report, replace(report, transfer_graph=graph)).differences
    assert (only.kind, "gpu:0 to host" in only.text) == ("transfers", True)


def test_runs_with_little_in_common_are_not_compared(report: Report) -> None:
    other = read_report(REPORTS / "eager_ops" / "report.json")
    found = compare(report, other)
    assert not found.has_enough_in_common
    assert found.step_time is None
    assert {each.kind for each in found.differences} <= {"environment"}


@pytest.mark.parametrize(
    ("step_us", "factor", "seen"),
    [
        *((30_000, 1.0, False), (30_000, 1.1, False), (30_000, 0.8, True), (30_000, 1.3, True)),
        *((1_000, 1.4, False), (1_000, 2.0, True)),  # threads wake up at different speeds
    ],
)
def test_step_times_differ_only_beyond_what_runs_of_one_program_do(
    step_us: float, factor: float, *, seen: bool
) -> None:
    rng = np.random.default_rng(1)
    base, new = (step_us * np.exp(rng.normal(0, 0.1, 60)) for _ in range(2))
    change = step_time_change(base, factor * new)
    assert change is not None
    assert change.is_seen == seen
    assert not seen or change.low < factor - 1 < change.high
    assert step_time_change(base[:4], new) is None


def test_another_tracer_level_is_no_change_of_the_program(report: Report) -> None:
    levels = [replace(report, run=replace(report.run, host_tracer_level=n)) for n in (2, 3)]
    assert compare(report, report).step_time is not None
    assert compare(*levels).step_time is None


@pytest.mark.parametrize("busy", [0, 1])
def test_runs_are_not_timed_if_other_processes_took_the_cpus(report: Report, busy: int) -> None:
    runs = [report, report]
    remark = Health(severity="warning", id="cpus_taken", message="other processes took 60%")
    runs[busy] = replace(report, health=(*report.health, remark))
    assert compare(*runs).step_time is None


def test_ops_that_only_a_higher_tracer_level_records_are_not_called_new(report: Report) -> None:
    def at(level: int, of: Report) -> Report:
        return replace(of, run=replace(of.run, host_tracer_level=level))

    ops = report.tables.ops
    rows = [row for row in ops.records() if row["type"] != "TopKV2"]
    fewer = replace(ops, rows=tuple(tuple(row.values()) for row in rows), total_rows=len(rows))
    there = report.on_a_gpu
    assert there is not None
    known = tuple(f for f in there.findings if f.id != "4b278816b8")
    without = replace(
        report,
        tables=replace(report.tables, ops=fewer),
        on_a_gpu=replace(there, findings=known),
    )
    assert {d.kind for d in compare(without, report).differences} == {"ops", "finding"}
    found = compare(at(2, without), at(3, report)).differences
    assert {d.kind for d in found} == {"environment"}


def test_an_op_whose_device_is_unknown_is_not_said_to_have_moved(report: Report) -> None:
    def lose(row: dict[str, Any]) -> dict[str, Any]:
        return {**row, "predicted_placement": "unknown"} if row["type"] == "Sigmoid" else row

    (only,) = compare(report, _renamed(report, lose)).differences
    assert (only.kind, "base" in only.text) == ("unknown", True)


@pytest.mark.slow
@needs_corpus
def test_two_runs_of_a_gpu_program_are_compared_with_their_transfers() -> None:
    runs = ta.runs(CORPUS / "tfgpu-e4040-2023-hd2551")[:2]
    reports = [assemble(ta.diagnose(ta.load(CORPUS / "tfgpu-e4040-2023-hd2551", n))) for n in runs]
    found = compare(*reports)
    assert not [each for each in found.differences if each.kind == "moved"]


def test_page_and_data_say_the_same(tmp_path: Path) -> None:
    page, data = tmp_path / "compare.html", tmp_path / "compare.json"
    base = REPORTS / "recommender" / "report.json"
    other = REPORTS / "tf_function" / "report.json"
    arguments = ["compare", str(base), str(other), "-o", str(page), "--json", str(data)]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0
    found = json.loads(data.read_text(encoding="utf-8"))
    assert not found["has_enough_in_common"]
    assert f"{found['shared_share']:.0%}".replace("%", " %") in done.stdout
    assert "Content-Security-Policy" in page.read_text(encoding="utf-8")


# --- captured programs with one planted change each --------------------------------------------

PROGRAM: Final = """
import time
import tensorflow as tf

BATCH = 64
SIZE = 64
with tf.device("/GPU:0"):
    weights = tf.Variable(tf.ones((64, SIZE)), name="weights")
    counts = tf.Variable(tf.zeros((8,)), name="counts")
data = tf.data.Dataset.range(200).map(lambda i: tf.fill((BATCH, 64), tf.cast(i, tf.float32)))

@tf.function
def train_step(x):
    with tf.name_scope("dense"):
        y = tf.nn.relu(tf.matmul(x, weights))
    with tf.name_scope("head"):
        loss = tf.reduce_mean(tf.square(y))
    with tf.device("/CPU:0"):
        top = tf.math.top_k(y[0], 4).indices
    weights.assign_sub(1e-6 * tf.ones_like(weights) * loss)
    return loss, top

train_step(tf.zeros((BATCH, 64)))
for step, x in enumerate(data.take(12)):
    with tf.profiler.experimental.Trace("train", step_num=step, _r=1):
        loss, top = train_step(x)
"""


class Planted(NamedTuple):
    """A change of the program, and the differences that it makes."""

    old: str
    new: str
    named: str  # in the text of a difference
    kinds: set[str]  # all that may differ


PLANTED: Final = {
    "type": Planted(
        "y = tf.nn.relu(tf.matmul(x, weights))",
        "y = tf.cast(tf.matmul(tf.cast(x, tf.int32), tf.cast(weights, tf.int32)), tf.float32)",
        "int32",
        {"moved", "types", "ops", "finding"},
    ),
    "scope_removed": Planted(
        'tf.device("/CPU:0")', 'tf.device("/GPU:0")', "TopKV2", {"moved", "finding"}
    ),
    "scope_added": Planted(
        'tf.name_scope("head")',
        'tf.device("/CPU:0")',
        "now on the CPU",
        {"moved", "finding", "ops"},
    ),
    "renamed_layer": Planted(
        'name_scope("head")', 'name_scope("classifier")', "classifier", {"ops"}
    ),
    "new_op": Planted("return loss, top", "return tf.abs(loss), top", "Abs", {"ops"}),
    "gone_op": Planted(
        "tf.nn.relu(tf.matmul(x, weights))", "tf.matmul(x, weights)", "Relu", {"ops"}
    ),
    "half_precision": Planted(
        "tf.matmul(x, weights)",
        "tf.cast(tf.matmul(tf.cast(x, tf.half), tf.cast(weights, tf.half)), tf.float32)",
        "half",
        {"types", "ops"},
    ),
    "variable_on_cpu": Planted("/GPU:0", "/CPU:0", "weights", {"moved", "finding", "ops"}),
    "callback": Planted(
        "tf.nn.relu(",
        "tf.numpy_function(lambda v: v, [x], tf.float32) + tf.nn.relu(",
        "PyFunc",
        {"ops", "finding"},
    ),
    "batch_size": Planted("BATCH = 64", "BATCH = 96", "96 instead of 64", {"shapes"}),
    "layer_size": Planted("SIZE = 64", "SIZE = 32", "32 instead of 64", {"shapes"}),
    "slower_step": Planted(
        "loss, top = train_step(x)", "time.sleep(0.05); train_step(x)", "", {"input"}
    ),
    "slower_pipeline": Planted(
        "data = tf.data.Dataset.range(200)",
        "slow = lambda v: (time.sleep(0.1), v)[1]\n"
        "data = tf.data.Dataset.range(200).map(lambda i: tf.py_function(slow, [i], i.dtype))",
        "for input",
        {"input", "ops", "finding"},
    ),
}


@pytest.fixture(scope="module")
def base() -> Report:
    return reported(PROGRAM)


def on_free_cpus(report: Report) -> Report:
    """Return a report as of a quiet machine, for a change larger than what other processes do."""
    return replace(report, health=tuple(h for h in report.health if h.id != "cpus_taken"))


def reported(program: str) -> Report:
    """Capture a program on an emulated GPU; return its report."""
    return assemble(ta.diagnose(captured(program, level=3).run()))


@pytest.mark.slow  # captures a program for each change
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_change_is_named_and_none_is_invented(base: Report, name: str) -> None:
    old, new, named, kinds = PLANTED[name]
    assert old in PROGRAM
    runs = [base, reported(PROGRAM.replace(old, new))]
    found = compare(*(map(on_free_cpus, runs) if name.startswith("slower") else runs))
    assert any(named in each.text for each in found.differences) or not named
    if "moved" in kinds or name == "callback":
        kinds = {*kinds, "transfers"}  # to and from the ops that moved
    assert {each.kind for each in found.differences} <= kinds, found.differences
    assert name != "slower_step" or _is_slower(found)


def _is_slower(found: Comparison) -> bool:
    return found.step_time is not None and found.step_time.is_seen and found.step_time.low > 0


# --- long lists of ops ---------------------------------------------------------------------------


def many(*names: str) -> Run:
    """A run of ops named so, more than a report lists, each longer than the one before."""
    made = [op(name, "Tanh", us(9_000 * k, 5 + k)) for k, name in enumerate(names)]
    return run_of(host(thread("tf_Compute", 1)(*made)))


def whole(run: Run) -> Report:
    return assemble(diagnose(run), is_whole=True)


NAMES: Final = [f"block_{k % 9}/part_{k // 9}/tanh" for k in range(700)]


def test_all_ops_of_long_lists_are_matched() -> None:
    found = compare(whole(many(*NAMES)), whole(many(*reversed(NAMES))))

    assert found.shared == 1
    assert [each for each in found.differences if each.kind == "ops"] == []


def test_profiles_are_read_with_all_their_ops(tmp_path: Path) -> None:
    for name, order in (("a", NAMES), ("b", NAMES[::-1])):
        made = [op(each, "Tanh", us(9_000 * k, 5 + k)) for k, each in enumerate(order)]
        write(tmp_path / name, xspace(host(thread("tf_Compute", 1)(*made))))

    done = CliRunner().invoke(cli, ["compare", str(tmp_path / "a"), str(tmp_path / "b")])

    assert "100 % of the ops are in both runs" in done.output
    assert "renamed" not in done.output
    assert "only in the" not in done.output


def test_a_report_that_lists_some_ops_says_what_it_cannot_match() -> None:
    base, new = assemble(diagnose(many(*NAMES))), whole(many(*reversed(NAMES)))
    assert len(base.tables.ops.rows) < len(NAMES)

    found = compare(base, new)
    page = page_of(found, base, new)

    (said,) = found.differences
    assert said.kind == "environment"
    assert all(number in said.text for number in ("500", "700", "200 ops"))
    assert found.has_enough_in_common
    assert "of the ops are in both runs" not in " ".join(page.facts)


def test_a_report_that_lists_other_ops_claims_no_rename() -> None:
    base, new = (assemble(diagnose(many(*names))) for names in (NAMES, NAMES[::-1]))

    found = compare(base, new)

    assert found.has_enough_in_common
    assert {each.kind for each in found.differences} == {"environment"}


def test_a_scope_is_renamed_only_if_the_old_name_is_gone() -> None:
    kept = [f"kept/{k}/tanh" for k in range(9)]
    old = [f"old/{name}" for name in ("a", "b")]
    new = [f"new/{name}" for name in ("a", "b")]

    def renamed(base: list[str], now: list[str]) -> list[str]:
        found = compare(whole(many(*kept, *base)), whole(many(*kept, *now)))
        return [each.text for each in found.differences if "renamed" in each.text]

    (said,) = renamed(old, new)
    assert "old was renamed to new" in said
    assert renamed([*old, "new/c"], [*new, "old/d"]) == []
    assert renamed(old, [new[0], "third/b"]) == []

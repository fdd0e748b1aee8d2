"""The drawer of an op: why it is there, its transfers, its line."""

import traceanalyzer as ta
from tests.report.reading import only, plain, records
from tests.report.test_transfers import ROUND_TRIP
from tests.samples import sample
from tests.test_costs import run_of
from tests.traces import executor, gpu, host, kernel, op, stream, thread, us
from traceanalyzer.changes import Change
from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.model.blocks import Block, Bullets, Fold, KeyValues, Link, Source, Table
from traceanalyzer.report.op_details import op_details
from traceanalyzer.report.page_facts import PageFacts


def details_of(diagnosis: Diagnosis, name: str) -> tuple[Block, ...]:
    op_id = diagnosis.run.ops.set_index("name")["op_id"].loc[name]
    changes = (Change(id="7", kind="edit", title="Use int64", op_ids=(op_id,)),)
    return op_details(PageFacts(diagnosis=diagnosis, changes=changes))[op_id]


def test_it_says_what_keeps_an_op_on_the_cpu_and_shows_its_line() -> None:
    blocks = details_of(sample("recommender"), "TopKV2")

    said = " ".join(plain(block.summary) for block in blocks if isinstance(block, Fold))
    assert 'tf.device("/CPU:0") at program.py:100' in said
    assert only(blocks, Source).lines == ("return tf.math.top_k(model.asked, DESK).indices",)
    facts = {name: plain(text) for name, text in only(blocks, KeyValues).rows}
    assert facts["Requested device"] == "/device:CPU:0"


def test_it_leads_to_the_changes_of_the_op() -> None:
    blocks = details_of(sample("recommender"), "TopKV2")

    links = [i for b in blocks if isinstance(b, Bullets) for item in b.items for i in item]
    assert Link(text="Use int64", to="change-7") in links


def test_a_capture_shows_who_makes_and_takes_its_values() -> None:
    rows = records(only(details_of(sample("recommender"), "concat"), Table))

    inputs = {row["op"] for row in rows if row["end"] == "input"}
    assert "embedding_lookup_1:ResourceGather" in " ".join(inputs)
    assert ("output", "MatMul") in {(row["end"], row["op"]) for row in rows}
    assert {row["type"] for row in rows} == {"float"}


def test_a_captured_eager_op_has_types_shapes_and_bytes() -> None:
    rows = records(only(details_of(sample("recommender"), "TopKV2"), Table))

    assert [(row["end"], row["type"], row["bytes"]) for row in rows] == [
        ("input", "int32 [800]", 3200), ("input", "int32", None),
        ("output", "int32 [40]", 160), ("output", "int32 [40]", 160),
    ]  # fmt: skip


def test_arguments_of_a_captured_function_are_shown_as_they_were_bound() -> None:
    rows = records(only(details_of(sample("recommender"), "ResourceScatterAdd"), Table))

    assert [(row["op"], row["type"], row["bytes"]) for row in rows] == [
        ("asked (variable)", "int32 [800]", 3200), ("loan_1 (argument)", "int64 [64]", 512),
    ]  # fmt: skip


def test_it_shows_inputs_and_outputs_with_their_bytes() -> None:
    worker = thread("tf_Compute", 2)(executor(us(2, 998), step=5)(op("u", "Unique", us(105, 9))))
    diagnosis = ta.diagnose(run_of(host(worker), gpu(0, stream(9)(*ROUND_TRIP))))

    rows = records(only(details_of(diagnosis, "u"), Table))

    assert [(row["end"], row["op"], row["transferred"]) for row in rows] == [
        ("input", "x", 64), ("output", "y", 32),
    ]  # fmt: skip


def test_it_shows_the_kernels_of_an_op_on_a_gpu() -> None:
    kernels = [kernel("gemm", us(10 * k, 5), "m:MatMul") for k in range(3)]
    diagnosis = ta.diagnose(run_of(gpu(0, stream(9)(*kernels))))

    (row,) = records(only(details_of(diagnosis, "m"), Table))

    assert (row["kernel"], row["count"], row["time_us"]) == ("gemm", 3, 15.0)


def test_what_is_unknown_is_not_shown() -> None:
    worker = thread("tf_Compute", 2)(executor(us(2, 998))(op("u", "Unique", us(105, 9))))

    blocks = details_of(ta.diagnose(run_of(host(worker))), "u")

    assert "Requested device" not in dict(only(blocks, KeyValues).rows)
    assert not [block for block in blocks if isinstance(block, Source | Table)]

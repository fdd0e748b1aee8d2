"""`traceanalyzer analyze PATH --op REGEX`: what is said of single ops, and what is not."""

import io
import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console

import traceanalyzer as ta
from tests.causes.examples import Example, blocker, cpu_op
from tests.causes.examples import line as frame
from tests.placement.test_program import Program, tensor
from tests.report.reading import only, plain
from tests.samples import Case as Sample
from tests.traces import (
    eager,
    executor,
    gpu,
    host,
    kernel,
    line,
    op,
    stream,
    thread,
    us,
    write,
    xspace,
)
from traceanalyzer.cli import main
from traceanalyzer.cli.explain_text import print_ops
from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.model.blocks import Block, Bullets, Fold, Note
from traceanalyzer.placement.explanations import PlacementExplanation
from traceanalyzer.report.op_details import OpReasons, ops_that_match
from traceanalyzer.tables.graph_nodes import OpRecord

SAMPLE = Sample("recommender").logs


@cache
def without_a_gpu() -> Diagnosis:
    """A program that was captured on a machine without a GPU."""
    return ta.diagnose(ta.load(SAMPLE))


@pytest.fixture
def bare(tmp_path: Path) -> Diagnosis:
    """A trace of level 2, with a GPU and nothing beside it."""
    ops = [op(f"m{k}", "MatMul", us(30 + k, 1)) for k in range(25)]
    space = xspace(
        host(line("python")(op("bad", "MatMul", us(10, 9)), eager("Unique", us(20, 8)), *ops)),
        gpu(0)(stream(13, "Compute")(kernel("gemm", us(12, 3), op="dense/Mul:Mul"))),
    )
    return ta.diagnose(ta.load(write(tmp_path / "logs", space)))


def test_an_op_that_constant_folding_computed_is_no_op_of_a_step(tmp_path: Path) -> None:
    folded = thread("tf_Compute", 1)(
        executor(us(0, 9), step=-1)(op("floordiv", "FloorDiv", us(1, 5)))
    )
    space = xspace(host(folded), gpu(0)(stream(13, "Compute")(kernel("gemm", us(12, 3)))))
    diagnosis = ta.diagnose(ta.load(write(tmp_path / "logs", space)))

    (found,) = of(diagnosis, "FloorDiv")

    assert "once" in notes(found.here)
    assert "Possible causes" not in notes(found.here)


def test_an_op_whose_only_input_the_trace_leaves_out_is_not_said_to_have_none(
    tmp_path: Path,
) -> None:
    """Of a resource a trace tells no type; of an op without inputs it has no brackets either."""
    reads = op("w", "ReadVariableOp", us(0, 5), shape="()")
    clock = op("now", "Timestamp", us(10, 5))
    gathers = op("g", "ResourceGather", us(20, 5), shape="(;int64[3])")
    path = write(tmp_path / "logs", xspace(host(line("python")(reads, clock, gathers)), gpu(0)))

    found = [facts(each) for each in of(ta.diagnose(ta.load(path)), "")]

    assert {each["Type"]: each.get("Input types") for each in found} == {
        "ReadVariableOp": "?",
        "Timestamp": None,
        "ResourceGather": "?, int64",
    }


def stacked(diagnosis: Diagnosis) -> Diagnosis:
    """The op `bad`, held by its type and by a scope, as a replay of a capture would tell."""
    (row,) = diagnosis.run.ops[diagnosis.run.ops["name"] == "bad"].itertuples()
    explanation = PlacementExplanation(
        type="MatMul",
        blockers=(
            blocker("attributes", "MatMul", attributes={"T": "int32"}, frame=frame(7)),
            blocker(
                "request",
                "MatMul",
                requested_device="/device:CPU:0",
                scope="/CPU:0",
                scope_frame=frame(6),
            ),
        ),
        basis="replay",
        certainty="certain",
        is_complete=True,
        kernels=("CPU",),
    )
    its = cpu_op(
        "MatMul", op_id=row.op_id, explanation=explanation, requested_device="/device:CPU:0"
    )
    return replace(diagnosis, findings=(), cpu_ops={row.op_id: replace(its, host=row.host)})


def of(diagnosis: Diagnosis, expression: str) -> list[OpReasons]:
    return ops_that_match(diagnosis, re.compile(expression))[0]


def facts(op: OpReasons) -> dict[str, str]:
    return {name: plain(text) for name, text in op.facts.rows}


def notes(blocks: tuple[Block, ...]) -> str:
    return " ".join(plain(block.text) for block in blocks if isinstance(block, Note))


def reasons(blocks: tuple[Block, ...]) -> list[str]:
    """The cause, certainty, and harm of each reason."""
    folds = [block.blocks[0] for block in blocks if isinstance(block, Fold)]
    return [plain(first.text) for first in folds if isinstance(first, Note)]


def ruled_out(blocks: tuple[Block, ...]) -> set[str]:
    folds = [f.blocks for f in blocks if isinstance(f, Fold) and plain(f.summary) == "Ruled out"]
    return {plain(fact).partition(":")[0] for of in folds for fact in only(of, Bullets).items}


def printed(diagnosis: Diagnosis, expression: str, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width)
    print_ops(*ops_that_match(diagnosis, re.compile(expression)), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().replace("\xa0", " ")


def said(diagnosis: Diagnosis, expression: str) -> str:
    return " ".join(printed(diagnosis, expression, 400).split())


def test_all_that_holds_an_op_stands_in_the_order_in_which_it_bites(bare: Diagnosis) -> None:
    (found,) = of(stacked(bare), "^bad$")
    assert [reason.partition(",")[0] for reason in reasons(found.here)] == [
        "dtype_unsupported (certain",
        "explicit_cpu_placement (certain",
    ]
    text = said(stacked(bare), "^bad$")
    assert "Fix them all" in text
    assert text.index("1. MatMul has no GPU kernel for int32") < text.index("2. tf.device")
    assert "[train.py:6]" in text
    assert "tf.cast(" in text


def test_what_holds_an_op_is_never_ruled_out(bare: Diagnosis) -> None:
    (found,) = of(stacked(bare), "^bad$")
    out = ruled_out(found.here)
    assert "no_gpu_visible" in out
    assert not out & {"dtype_unsupported", "explicit_cpu_placement", "library_cpu_placement"}


def test_a_bare_trace_leaves_open_what_only_a_capture_tells(bare: Diagnosis) -> None:
    (found,) = of(bare, "^bad$")
    assert "Requested device" not in facts(found)
    assert not reasons(found.here)
    assert "Possible causes: dtype_unsupported (" in notes(found.here)
    assert "traceanalyzer capture" in notes(found.here)
    assert not ruled_out(found.here) & {"memory_pressure", "explicit_cpu_placement"}


def test_on_its_own_machine_and_on_one_with_a_gpu() -> None:
    (found,) = of(without_a_gpu(), "^TopKV2$")
    assert found.place == "program.py:101"
    (reason,) = reasons(found.here)
    assert reason.startswith("no_gpu_visible/hidden_by_env ")
    (reason,) = reasons(found.on_a_gpu)
    assert reason.startswith("explicit_cpu_placement ")
    assert "The only blocker" in notes(found.on_a_gpu)
    assert "no_gpu_kernel" in ruled_out(found.on_a_gpu)
    assert "[program.py:100]" in said(without_a_gpu(), "^TopKV2$")


def test_what_a_gpu_has_and_the_host_computes_is_not_said_to_be_on_the_cpu() -> None:
    """The question about int32 that is asked most: where it is, why, and what would move it."""
    program = Program()
    number = program.eager("AddV2", tensor("int32"), tensor("int32"))
    record = OpRecord(frame=None, requested_device="", signatures=(number,))
    example = Example(
        title="",
        ops=({"name": "AddV2", "type": "AddV2", "function": None, "is_eager": True},),
        facts={"gpu_used": False, "gpu_witness": "", "accelerators": {}},
        capture_file=program.capture_file(),
        record=record,
    )
    diagnosis = ta.diagnose(example.run())

    (found,) = of(diagnosis, "^AddV2$")
    (reason,) = reasons(found.on_a_gpu)
    assert reason.startswith("host_memory_kernel ")
    assert "/device:GPU:0 but computed on the host" in notes(found.on_a_gpu)
    assert "The only blocker" not in notes(found.on_a_gpu)  # nothing keeps it from the GPU
    text = said(diagnosis, "^AddV2$")
    assert "T=int32 is registered with all data in host memory" in text
    assert diagnosis.on_a_gpu is not None
    assert not diagnosis.on_a_gpu.analysis.cpu_ops  # it would not be on the CPU
    assert not diagnosis.on_a_gpu.unexplained


@pytest.mark.parametrize(
    ("expression", "expected"),
    [("MatMul(", "not a regular expression"), ("TopKV3", "similar types: TopKV2")],
)
def test_what_cannot_be_answered_is_one_line(
    capsys: pytest.CaptureFixture[str], expression: str, expected: str
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["analyze", str(SAMPLE), "--op", expression])
    out, err = capsys.readouterr()
    assert (exit_.value.code, out) == (2, "")
    assert err.count("\n") == 1
    assert expected in err

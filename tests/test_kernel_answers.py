"""`traceanalyzer kernels`: what is answered, as a record, as JSON and in the terminal."""

import io
import json

import pytest
from rich.console import Console

from traceanalyzer.cli import main
from traceanalyzer.cli.kernel_text import print_answer
from traceanalyzer.placement.kernel_answers import QuestionError, answer


def printed(*question: str | None, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    print_answer(answer(*question), console)  # type: ignore[arg-type]
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as exit_:
        main(["kernels", *arguments])
    out, err = capsys.readouterr()
    return int(exit_.value.code or 0), out, err


@pytest.mark.parametrize(
    ("op", "dtype", "tf", "gpu_kernel"),
    [
        ("MatMul", "float32", "2.21", True),
        ("MatMul", "float64", "2.12", True),
        ("MatMul", "int32", "2.21", False),
        ("StringJoin", None, "2.21", False),
        ("StringJoin", "string", "2.21", False),
        ("AddV2", "int32", "2.21", True),
        ("Cast", "string", "2.21", False),
        ("Cast", "bool", "2.21", True),
        ("GatherV2", "float32", "2.21", True),
        ("RandomUniform", "float32", "2.21", True),
        ("IdentityN", "string", "2.21", True),
        ("NoOp", None, "2.21", True),
        ("TopK", "float32", "2.21", False),
        ("TopK", "float32", "2.12", True),
        ("Range", "float16", "2.17", False),
        ("Range", "float16", "2.18", True),
    ],
)
def test_whether_there_is_a_kernel(
    op: str, dtype: str | None, tf: str, *, gpu_kernel: bool | None
) -> None:
    found = answer(op, dtype, tf)
    assert (found.gpu_kernel, found.certainty) == (gpu_kernel, "certain")


@pytest.mark.parametrize(
    ("op", "dtype", "computed_on_host", "host_memory_args"),
    [
        ("AddV2", "int32", True, ("x", "y", "z")),
        ("AddV2", "float32", False, ()),
        ("Sum", "float32", False, ("reduction_indices",)),
        ("MatMul", "int32", None, ()),  # not on the GPU at all
        ("VarHandleOp", "float32", False, ("resource",)),  # only the handle: the values are there
    ],
)
def test_whether_the_host_computes_what_the_gpu_has(
    op: str, dtype: str, *, computed_on_host: bool | None, host_memory_args: tuple[str, ...]
) -> None:
    found = answer(op, dtype)

    assert (found.computed_on_host, found.host_memory_args) == (computed_on_host, host_memory_args)
    said = printed(op, dtype, width=400).splitlines()[1]
    assert ("computed on the host" in said) is bool(computed_on_host)


def test_what_depends_is_explained() -> None:
    assert "But not with T int64" in answer("RandomUniform", "float32").notes
    assert "But not with Tindices int16" in answer("GatherV2", "float32").notes
    assert answer("GatherV2").depends["float32"] == "not with Tindices int16"
    both = answer("Cast", "float32").notes
    assert both == ("But not with SrcT int4 or uint4, nor with DstT int4 or uint4",)
    assert not answer("MatMul", "float32").notes


def test_another_version_is_answered_from_the_nearest_and_nothing_is_certain() -> None:
    for tf, table in (("1.15.5", "2.0"), ("2.22", "2.21"), ("2.13.0rc1", "2.13")):
        for dtype, devices in (("int32", ("CPU",)), ("float32", ("CPU", "GPU"))):
            found = answer("MatMul", dtype, tf)
            assert (found.tf, found.table, found.certainty) == (tf, table, "likely")
            assert (found.gpu_kernel, found.dtypes[dtype]) == (None, devices)
            assert f"TensorFlow {tf} is not covered" in found.notes[0]
    assert f"TensorFlow {tf} is not covered" in printed("MatMul", None, "2.13.0rc1", width=400)


def test_since_when() -> None:
    assert answer("MatMul").since == "2.0"
    assert "2.0 or earlier" in printed("MatMul")
    assert answer("Range", "float16").since == "2.18"
    assert answer("MatMul", "int32").since is None


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (("Matmul",), "similar: MatMul"),
        (("tf.linalg.batch_matmul",), "similar: BatchMatMul"),
        (("qqqqqqqq",), "write op types like MatMul"),
        (("",), "has no op"),
        (("_MklAdd",), "exists in TensorFlow 2.5 to 2.16, not in 2.21; use --tf 2.16"),
        (("StochasticCastToInt", None, "2.12"), "exists in TensorFlow 2.13 to 2.21, not in 2.12"),
        (("MatMul", "flot32"), "float32"),
        (("MatMul", ""), "is not a TensorFlow type"),
        (("MatMul", None, "newest"), "is not a version of TensorFlow; write it like 2.21"),
    ],
)
def test_what_does_not_exist_is_one_line(question: tuple[str, ...], message: str) -> None:
    with pytest.raises(QuestionError) as error:
        answer(*question)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_json_holds_what_scripts_rely_on(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "MatMul", "--dtype", "int32", "--tf", "2.21", "--json")
    assert (code, err) == (0, "")
    data = json.loads(out)
    assert data["op"] == "MatMul"
    assert data["dtype"] == "int32"
    assert data["tf"] == "2.21"
    assert data["gpu_kernel"] is False
    assert data["host_memory_args"] == []
    assert data["dtypes"]["int32"] == ["CPU"]
    assert data["dtypes"]["float32"] == ["CPU", "GPU"]


def test_ops_without_gpu_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--cpu-only")
    ops = out.split()
    assert (code, err) == (0, "")
    assert {"StringJoin", "ResizeBicubic", "RandomShuffle", "PyFunc"} <= {*ops}
    assert not {"MatMul", "NoOp", "TopK"} & {*ops}
    assert ops == sorted(ops)
    assert not [op for op in ops if op.startswith("_")]
    of_type = json.loads(run(capsys, "--cpu-only", "--dtype", "int32", "--json")[1])["ops"]
    assert "MatMul" in of_type
    assert not {"AddV2", "StringUpper"} & {*of_type}  # which has a kernel, and does not take it


@pytest.mark.parametrize(
    "arguments", [(), ("MatMul", "--cpu-only"), ("Matmul",), ("A", "--tf", "x")]
)
def test_bad_usage_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("traceanalyzer: ")

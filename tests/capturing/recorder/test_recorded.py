"""A program under the recorder, with TensorFlow: what is journalled, record by record.

The program, `recorded_program.py`, runs once. The lines that are asked for bear marks there.
"""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.capture_file.test_graphs import assert_same
from tests.capturing.recorder.recorded import Place, Record, Recorded, Recorder
from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.capture_file.dumps import read_dumps
from traceanalyzer.capture_file.function_records import Instance
from traceanalyzer.capture_file.graph_def import AttributePool

_PROGRAM = Path(__file__).with_name("recorded_program.py")
_LIBRARY = Path(__file__).with_name("recorded_library.py")
_MARK = re.compile(r"# at: (\w+)$", re.MULTILINE)
_CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def _marks(path: Path, source: str) -> dict[Place, str]:
    lines = enumerate(source.splitlines(), 1)
    return {(str(path), n): found[1] for n, line in lines if (found := _MARK.search(line))}


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    folder = tmp_path_factory.mktemp("recorded")
    library = folder / "site-packages" / "library.py"
    library.parent.mkdir()
    shutil.copy(_LIBRARY, library)
    recorder = Recorder.make(folder)
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": str(library.parent),
        "TF_ENABLE_ONEDNN_OPTS": "1",
        "TF_VAR_secret": "not to be told",
    }
    done = recorder.run([sys.executable, _PROGRAM, "--an-argument"], variables, cwd=folder)
    assert done.returncode == 0, done.stderr
    marks = {**_marks(_PROGRAM, _PROGRAM.read_text()), **_marks(library, _LIBRARY.read_text())}
    return Recorded(recorder, done.stdout, marks)


def test_the_program_does_what_it_does_without_us(recorded: Recorded) -> None:
    assert sorted(recorded.output.split("\n")) == ["", "[0.0, 0.0]", "too large"]


def test_the_journal_is_whole_and_tells_of_no_failure(recorded: Recorded) -> None:
    kinds = [record["kind"] for record in recorded.journal]
    assert kinds[:3] == ["started", "attached", "environment"]
    assert kinds[-2:] == ["devices", "finished"]
    assert set(kinds[3:-2]) == {
        *("frames", "scopes", "function", "tracing", "error", "eager", "session_config")
    }


@pytest.mark.parametrize(
    ("mark", "op", "attributes", "inputs"),
    [
        ("matmul", "MatMul", {"transpose_a": False, "transpose_b": True, "T": "float"}, None),
        ("cast", "Cast", {"SrcT": "float", "DstT": "int32", "Truncate": False}, None),
        ("split", "Split", {"num_split": 2, "T": "float"}, None),
        ("join", "StringJoin", {"separator": {"s": "-"}, "N": 2}, None),
        ("variable", "VarHandleOp", {"dtype": "float", "shape": {"shape": [2, 2]}}, None),
        (
            "mapped",
            "RangeDataset",
            {"output_types": ["int64"], "output_shapes": [{"shape": []}]},
            None,
        ),
        ("table", "HashTableV2", {"key_dtype": "string", "value_dtype": "int32"}, None),
        # The op's default comes before the type that an array has.
        ("sum_values", "Sum", {"T": "double", "Tidx": "int32"}, ["double", "int32"]),
        ("where_values", "Where", {"T": "bool"}, ["bool"]),
        ("pack_values", "Pack", {"T": "float", "N": 2}, ["float", "float"]),
        (
            "identities",
            "IdentityN",
            {"T": ["double", "int64", "float"]},
            ["double", "int64", "float"],
        ),
        ("tanh_list", "Tanh", {"T": "float"}, ["float"]),
        ("zeros_like_objects", "ZerosLike", {"T": "string"}, ["string"]),
        ("py_function_values", "EagerPyFunc", {"Tin": ["double", "int32"]}, ["double", "int32"]),
    ],
)
def test_attributes_given_and_those_that_inputs_decide(
    recorded: Recorded, mark: str, op: str, attributes: Record, inputs: list[str] | None
) -> None:
    """What is made tensors in C++ has the types that TensorFlow gives it."""
    (found,) = [s for s in recorded.at(mark) if s["op"] == op]
    assert attributes.items() <= found["attributes"].items()
    assert not found["is_function"]
    assert inputs in (None, [t["dtype"] for t in found["inputs"]])


@pytest.mark.parametrize(
    ("mark", "op", "inputs", "outputs"),
    [
        ("matmul", "MatMul", [("float", [2, 2])] * 2, [("float", [2, 2])]),
        ("split", "Split", [("int32", None), ("float", [2, 2])], [("float", [1, 2])] * 2),
        ("stack", "Pack", [("float", [2, 2])] * 10, [("float", [10, 2, 2])]),
        ("wrong_shapes", "MatMul", [("float", [2, 2]), ("float", [3, 3])], []),
        ("in_python", "Sigmoid", [("float", [2, 2])], [("float", [2, 2])]),
    ],
)
def test_inputs_and_outputs(
    recorded: Recorded,
    mark: str,
    op: str,
    inputs: list[tuple[str | None, list[int] | None]],
    outputs: list[tuple[str, list[int]]],
) -> None:
    (found,) = [s for s in recorded.at(mark) if s["op"] == op]
    assert [(t["dtype"], t["shape"]) for t in found["inputs"]] == inputs
    assert [(t["dtype"], t["shape"]) for t in found["outputs"]] == outputs
    devices = {(t["device"], t["backing_device"]) for t in found["inputs"] if t["device"]}
    assert devices == {(_CPU, _CPU)}


@pytest.mark.parametrize(
    ("mark", "ops"),
    [
        ("stack", ["ReadVariableOp"] * 10 + ["Pack"]),  # a list of variables
        ("add_variables", ["ReadVariableOp"] * 2 + ["AddV2"]),
        ("maximum", ["ReadVariableOp", "Identity", "Maximum"]),  # by way of the fallback
        ("stack_lazy", ["Mul"] + ["ReadVariableOp"] * 3 + ["Identity", "Pack"]),
        ("negative", ["Neg"] * 2500),
        ("wrong_shapes", ["Fill", "MatMul"]),
        ("init_scope", ["VarHandleOp", "AssignVariableOp"]),
        ("iterated", ["AnonymousIteratorV3", "MakeIterator", *["IteratorGetNext"] * 5]),
        ("square", ["Square"] * 4),
        ("cosh", ["Cosh"] * 10),
    ],
)
def test_the_ops_of_a_line_in_order(recorded: Recorded, mark: str, ops: list[str]) -> None:
    signatures = recorded.eager["signatures"]
    found = [
        signatures[k]["op"]
        for sequence in recorded.sequences.values()
        for k in sequence
        if recorded.mark(signatures[k]["frame"]) == mark
    ]
    assert found == ops


def test_the_sequences_are_those_of_the_trace(recorded: Recorded) -> None:
    assert recorded.traced.keys() == recorded.sequences.keys()
    signatures = recorded.eager["signatures"]
    ops = {s["op"] for s in signatures}
    for thread, sequence in recorded.sequences.items():
        events = recorded.traced[thread]
        # What ran before the first marker was not asked for by the program's Python.
        assert set(events[: events.index(0)]) <= {"_EagerConst"}
        assert [e for e in events if e in ops] == [signatures[k]["op"] for k in sequence]
        assert {e for e in events if e not in ops and isinstance(e, str)} <= {"_EagerConst"}


@pytest.mark.parametrize(
    ("mark", "scopes"),
    [
        ("exp_outer", [(_CPU, "outer_scope")]),
        ("exp_inner", [("/device:cpu:0", "inner_scope"), (_CPU, "outer_scope")]),
        ("exp_again", [(_CPU, "outer_scope")]),
        ("exp_no_request", [(_CPU, "outer_scope")]),
        ("exp_lifted", [("", "lifting_scope"), (_CPU, "outer_scope")]),
        ("exp_bare", []),
        ("exp_completed", [(_CPU, "completed_scope")]),  # TensorFlow makes of it a CPU's
        ("exp_library_call", [(_CPU, "library_scope")]),
        ("exp_helper", [(_CPU, "library_helper_scope")]),
    ],
)
def test_all_scopes_around_an_eager_op(
    recorded: Recorded, mark: str, scopes: list[tuple[str, str]]
) -> None:
    (found,) = recorded.at(mark)
    within = recorded.scopes(found["scopes"])
    told = [(asked, recorded.mark(frame)) for asked, frame, _ in within]
    assert told == scopes


def test_whose_device_an_op_or_a_node_is_asked_for(recorded: Recorded) -> None:
    marks = {
        "of_spelt": None,
        "of_variable": "kernel",
        "of_beside_variable": "kernel",
        "of_tensor": "machine",
        "of_result": "Abs",
        "of_spelt_in_full": None,
    }
    for mark, owner in marks.items():
        found = [s for s in recorded.at(mark) if s["op"] == "Exp"]
        assert {recorded.origin(recorded.scopes(s["scopes"])[0][2]) for s in found} == {owner}, mark
    function = recorded.function("__inference_in_scopes_of_others")
    for name, owner in {"variable": "kernel", "again": "kernel", "short": None}.items():
        (first, *_) = recorded.scopes(function["scopes"][function["nodes"].index(f"{name}/Exp")])
        assert recorded.origin(first[2]) == owner, name


def test_a_variable_made_while_a_function_is_traced_is_in_the_scope_of_the_program(
    recorded: Recorded,
) -> None:
    """TensorFlow opens the scope anew, outside of the graph (`init_scope`)."""
    found = [s for s in recorded.at("lifted") if s["op"] == "VarHandleOp"]
    opened = {recorded.mark(s["scope_frame"]) for s in found}
    assert ({s["scope"] for s in found}, opened) == ({_CPU}, {"lifted_scope"})


def test_resources_are_known_by_the_op_that_made_them(recorded: Recorded) -> None:
    signatures = recorded.eager["signatures"]
    found = {
        (recorded.mark(signatures[r["signature"]]["frame"]), r["name"]): (
            r["dtype"],
            r["shape"],
            r["bytes"],
            r["device"],
        )
        for r in recorded.eager["resources"]
    }
    assert found == {
        ("table", "hash_table"): (None, None, None, _CPU),
        ("variable", "kernel"): ("float", [2, 2], 16, _CPU),
        ("counter", "counter"): ("int64", [], 8, _CPU),
        ("library_counter", "of_library"): ("float", [], 4, _CPU),
        ("init_scope", "late"): ("float", [], 4, _CPU),
        ("lifted", "lifted"): ("float", [], 4, _CPU),
        ("iterated", ""): (None, None, None, _CPU),
    }


def test_of_what_a_library_makes_its_line_is_known_too(recorded: Recorded) -> None:
    signatures = recorded.eager["signatures"]
    made = {r["name"]: signatures[r["signature"]]["library"] for r in recorded.eager["resources"]}
    assert recorded.mark(made["of_library"]) == "library_variable"
    assert recorded.mark(made["kernel"]) is None
    (by_library,), (own,) = recorded.at("exp_library_call"), recorded.at("exp_helper")
    assert recorded.mark(by_library["library"]) == "library_op"
    assert recorded.mark(own["library"]) is None
    record = recorded.function("__inference_step")
    lines = dict(zip(record["nodes"], record["libraries"], strict=True))
    assert recorded.mark(lines["Exp"]) == "library_op"
    assert recorded.mark(lines["MatMul"]) is None


def test_a_call_binds_what_the_function_has_captured(recorded: Recorded) -> None:
    resources = recorded.eager["resources"]
    for mark in ("call", "other_call"):
        (call,) = recorded.at(mark)
        assert call["is_function"]
        assert call["op"] == recorded.function("__inference_step")["name"]
        assert call["attributes"] == {}
        bound = [t["resource"] for t in call["inputs"]]
        names = [None if k is None else resources[k]["name"] for k in bound]
        assert names == [None, None, "kernel", "counter", "hash_table", None]


@pytest.mark.parametrize(
    ("function", "node", "mark"),
    [
        ("__inference_step", "MatMul", "graph_matmul"),
        ("__inference_step", "Tanh", "graph_tanh"),
        ("__inference_step", "cond", "graph_condition"),
        ("__inference_step", "while", "graph_while"),
        ("__inference_step", "Exp", "graph_library"),
        ("__inference_step", "None_Lookup/LookupTableFindV2", "graph_lookup"),
        ("cond_true", "cond/Sqrt", "graph_branch"),
        ("while_body", "while/add", "graph_body"),
        ("__inference_Dataset_map_lambda", "mul", "mapped"),
        ("", "y", "v1_sinh"),
    ],
)
def test_the_line_of_a_node(recorded: Recorded, function: str, node: str, mark: str) -> None:
    assert recorded.node(function, node)[0] == mark


@pytest.mark.parametrize(
    ("function", "node", "scopes"),
    [
        ("__inference_step", "MatMul", [("/CPU:0", "graph_scope")]),
        (
            "__inference_step",
            "Tanh",
            [
                ("CPU:0", "graph_helper_scope"),
                ("CPU:0", "graph_inner_scope"),
                ("/CPU:0", "graph_scope"),
            ],
        ),
        ("__inference_step", "Exp", [("CPU:0", "library_scope")]),
        ("", "y", [("CPU:0", "v1_scope")]),
    ],
)
def test_the_scopes_of_a_node(
    recorded: Recorded, function: str, node: str, scopes: list[tuple[str, str]]
) -> None:
    assert recorded.node(function, node)[1] == scopes


def test_a_scope_that_tensorflow_opened_is_not_the_users(recorded: Recorded) -> None:
    ((_, opened),) = recorded.node("__inference_with_python", "EagerPyFunc")[1]
    assert opened is not None
    assert "script_ops.py" in opened
    found = recorded.pool("frames")
    assert {f[3] for f in found if f[0].endswith("script_ops.py")} == {0}


def test_memory_that_ran_out_and_its_handler(recorded: Recorded) -> None:
    (error,) = [e for e in recorded.of_kind("error") if e["where"] == "resource_exhausted"]
    assert error["type"] == "ResourceExhaustedError"
    assert "shape[4194304,4194304]" in error["message"]
    marks = [recorded.marks[f[0], f[1]] for f in error["raised"]]
    assert marks == ["exhausted", "allocating", "running_out"]
    assert [f[2:] for f in error["raised"][:2]] == [["allocate", 1], ["too_large", 1]]
    file, line, name, *_ = error["handler"]
    assert (recorded.marks[file, line], name) == ("exhausted_handler", "too_large")


def test_the_environment_is_told_without_its_secrets(recorded: Recorded) -> None:
    (found,) = recorded.of_kind("environment")
    assert found["variables"] == {"TF_ENABLE_ONEDNN_OPTS": "1"}
    assert found["tensorflow"]["version"].startswith("2.")
    assert found["tensorflow"]["build"]["is_cuda_build"] in {True, False}
    assert found["script"] == str(_PROGRAM)
    assert "not to be told" not in recorded.recorder.work.joinpath("journal.jsonl").read_text()
    assert "--an-argument" not in str(found)


def test_the_dumps_that_are_kept_are_those_of_the_functions_that_ran(recorded: Recorded) -> None:
    names = {path.name for path in (recorded.recorder.work / "graphs").iterdir()}
    stages = ("before_placer", "before_post_placement_passes", "after_partition_passes")
    for function in ("step", "with_python", "Dataset_map_lambda"):
        name = recorded.function(f"__inference_{function}")["name"]
        own = {n for n in names if n.startswith((name + ".", name + "_partition"))}
        assert {n.split(".main.")[-1] for n in own} == {f"{stage}.pb" for stage in stages}
    assert not any("initial" in n or "mlir" in n for n in names)


@pytest.fixture(scope="module")
def capture_file(recorded: Recorded) -> CaptureFile:
    pool = AttributePool()
    functions, notes = read_dumps(recorded.recorder.work / "graphs", pool, [])
    assert not notes
    return CaptureFile(
        tool="", host="", complete=True, functions=tuple(functions), attributes=tuple(pool.sets)
    )


def test_each_dump_is_read_as_protobuf_reads_it(recorded: Recorded) -> None:
    files = sorted((recorded.recorder.work / "graphs").glob("*.pb"))
    for file in files:
        assert_same(file.read_bytes())
    assert len(files) > 15


def instance_of(capture_file: CaptureFile, beginning: str) -> Instance:
    functions = (f for f in capture_file.functions if f.name.startswith(beginning))
    return next(functions).instances[0]


def test_a_function_is_there_with_requests_answers_and_what_ran(capture_file: CaptureFile) -> None:
    instance = instance_of(capture_file, "__inference_step_")
    graph = instance.input
    product, root = graph.index("MatMul"), [*graph.origin_nodes].index("cond/Sqrt")

    assert graph.devices[product] == "/device:CPU:0"
    assert graph.origin_functions[root].startswith("cond_true_")
    assert capture_file.attributes[graph.attributes[product]]["T"] == "float"
    assert set(instance.assigned) == {_CPU}
    assert [p.device for p in instance.partitions] == [_CPU]
    assert graph.producer > 1000
    assert {graph.devices[at] for at, op in enumerate(graph.ops) if op == "_Arg"} == {_CPU}


def test_a_session_of_version_1_is_there(capture_file: CaptureFile) -> None:
    instance = instance_of(capture_file, "unknown_graph")
    assert "y" in instance.input.names
    assert set(instance.assigned) == {_CPU}
    assert "y" in instance.partitions[0].names

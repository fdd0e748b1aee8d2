"""From the recorder's journal and TensorFlow's dumps to a capture file."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.capture_file.capture_files import GPU
from traceanalyzer.capture_file import files
from traceanalyzer.capture_file.build import build
from traceanalyzer.capture_file.document import CaptureFile, CaptureNote, Scope

STEP = ["/project/train.py", 11, "step", 1]
MAIN = ["/project/train.py", 30, "<module>", 1]
LEVELS = {"host_tracer_level": 3, "device_tracer_level": 1, "python_tracer_level": 0}


def packed(*numbers: int) -> str:
    return base64.b64encode(np.array(numbers, "<u4").tobytes()).decode()


def tensor(dtype: str | None, device: str = GPU, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    parts = {"dtype": dtype, "device": device, "backing_device": device, "shape": [2]}
    return {**parts, "resource": None, **more}


FRAMES: dict[str, Any] = {"kind": "frames", "first": 0, "values": [STEP, MAIN]}
SCOPES: dict[str, Any] = {"kind": "scopes", "first": 0, "values": [["/CPU:0", 0], ["/GPU:0", 1]]}
FUNCTION = {
    "kind": "function",
    "name": "__inference_step_9",
    "nodes": ["x", "mm"],
    "frames": [-1, 0],
    "scopes": [None, [0]],
}
EAGER = {
    "kind": "eager",
    "signatures": [
        {
            "op": "VarHandleOp",
            "is_function": False,
            "scope": "",
            "scope_frame": -1,
            "frame": 1,
            "attributes": {"dtype": "float", "scale": float("inf")},
            "inputs": [],
            "outputs": [tensor("resource", resource=0, shape=[])],
        },
        {
            "op": "__inference_step_9",
            "is_function": True,
            "scope": "/GPU:0",
            "scope_frame": 1,
            "scopes": [1, 0],
            "frame": 0,
            "attributes": {},
            "inputs": [tensor("float"), tensor(None, "", shape=None)],
            "outputs": [],
        },
    ],
    "resources": [
        {
            "signature": 0,
            "name": "weights",
            "dtype": "float",
            "shape": [2],
            "bytes": 8,
            "device": GPU,
        }
    ],
    "sequences": [
        {"thread": 0, "name": "MainThread", "session": 0}
        | {"signatures": packed(0, 1), "counts": packed(1, 2)}
    ],
}


SESSION_CONFIG: dict[str, Any] = {
    "kind": "session_config",
    "is_own": True,
    "is_local": True,
    "soft_placement": False,
    "device_count": {"GPU": 0},
    "rewrites": {"pin_to_host_optimization": "ON"},
}


KERNELS: dict[str, Any] = {
    "kind": "kernels",
    "kernels": [
        {
            "op": "SoftClip",
            "device_type": "GPU",
            "constraints": {"T": ["float", "half"], "exact": [True]},
            "host_memory_args": ["limit"],
            "priority": 1,
            "label": "fast",
        }
    ],
}


def write_journal(work: Path, *records: dict[str, Any], end: str = "") -> None:
    lines = [json.dumps(record) + "\n" for record in records]
    (work / "journal.jsonl").write_text("".join(lines) + end)


def session(trace: Path | None, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {
        "kind": "session",
        "trace": None if trace is None else str(trace),
        "method": "server",
        "requested": LEVELS,
        "start_ns": 1,
        "stop_ns": 2,
        "reason": "the script ended",
        **more,
    }


def finished(*records: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    return (*records, {"kind": "finished", "reason": "exit"})


def test_questions_and_scopes_are_kept_as_their_source_has_them(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(
        'print(tf.config.list_physical_devices("GPU"))\n'
        "HAS = has_gpu()\n"
        'with tf.device("/CPU:0" if HAS else None):\n    pass\n'
        'with tf.device("/CPU:0"):\n    pass\n'
        'HAS = has_gpu() or shutil.which("nvidia-smi")\n'
    )
    lines = [[str(program), number, "<module>", 1] for number in (3, 5)]
    frames = {**FRAMES, "values": [STEP, *lines]}
    scopes = {**SCOPES, "values": [["/CPU:0", 1], ["/CPU:0", 2]]}
    asked = [[str(program), 1], [str(program), 2]]
    write_journal(tmp_path, *finished(frames, scopes, {"kind": "devices", "gpu_questions": asked}))

    found = build(tmp_path, "h")

    assert found.devices == {"gpu_questions": [[str(program), 7], [str(program), 2]]}
    assert {found.frames[at].line for at in found.chosen} == {3}


def test_a_variable_that_the_program_unset_hides_nothing(tmp_path: Path) -> None:
    record = {"kind": "visibility", "how": "CUDA_VISIBLE_DEVICES", "frames": [MAIN]}
    variables = {"CUDA_VISIBLE_DEVICES": "-1", "TF_GPU_ALLOCATOR": ""}
    write_journal(
        tmp_path,
        *finished(
            {**record, "value": "-1"},
            {"kind": "environment", "variables": variables},
            {**record, "value": None},
        ),
    )

    found = build(tmp_path, "h")

    assert found.visibility == ()
    assert found.environment == {"variables": {"TF_GPU_ALLOCATOR": ""}}


def test_every_kind_of_record_finds_its_place(tmp_path: Path) -> None:
    write_journal(
        tmp_path,
        *finished(
            {"kind": "attached", "tf_version": "2.21.0"},
            {"kind": "environment", "cpu_count": 2},
            session(None),
            FRAMES,
            SCOPES,
            FUNCTION,
            EAGER,
            SESSION_CONFIG,
            KERNELS,
            {
                "kind": "error",
                "where": "tf.config",
                "type": "RuntimeError",
                "message": "too late",
                "raised": [STEP, MAIN],
                "handler": ["/project/train.py", 33, "<module>", [34, 35]],
            },
            {"kind": "note", "id": "threads", "severity": "info", "message": "one went on"},
            {"kind": "devices", "soft_device_placement": True},
        ),
    )

    found = build(tmp_path, "h", log=["a line"], gpus=[{"name": "H100"}])

    assert (found.host, found.complete) == ("h", True)
    assert (found.log, found.gpus) == (("a line",), ({"name": "H100"},))
    assert found.environment == {"cpu_count": 2}
    assert found.devices == {"soft_device_placement": True}
    assert [(frame.line, frame.code) for frame in found.frames] == [
        (11, "step"),
        (30, "<module>"),
        (33, "<module>"),
    ]
    assert found.scopes == (Scope(device="/CPU:0", frame=0), Scope(device="/GPU:0", frame=1))
    (definition,) = found.definitions
    assert (definition.frames, definition.scopes) == ((-1, 0), (None, (0,)))
    assert found.attributes == ({"dtype": "float", "scale": {"float": "inf"}}, {})
    handle, call = found.signatures
    assert (handle.attributes, handle.frame, handle.outputs[0].resource) == (0, 1, 0)
    assert (call.scope, call.scope_frame, call.scopes, call.frame) == ("/GPU:0", 1, (1, 0), 0)
    assert [tensor.dtype for tensor in call.inputs] == ["float", ""]
    assert [(each.name, each.bytes, each.device) for each in found.resources] == [
        ("weights", 8, GPU)
    ]
    (kernel,) = found.kernels
    assert kernel.constraints == {"T": ("float", "half"), "exact": (True,)}
    (sequence,) = found.sequences
    assert (sequence.signatures.tolist(), sequence.counts.tolist()) == ([0, 1], [1, 2])
    (error,) = found.errors
    assert (error.raised, error.handler, error.handler_lines) == ((0, 1), 2, (34, 35))
    (config,) = found.session_configs
    assert (config.is_own, config.device_count) == (True, {"GPU": 0})
    assert found.notes == (CaptureNote(id="threads", severity="info", message="one went on"),)
    assert found.omitted == {}


class TestSource:
    def test_no_secret_of_the_command_is_kept(self, tmp_path: Path) -> None:
        write_journal(tmp_path, *finished())
        words = ["traceanalyzer", "capture", "train.py", "--token", "abc"]

        assert build(tmp_path, "h").command is None
        assert build(tmp_path, "h", command=words).command == (*words[:-1], "***")


class TestDamage:
    def test_a_last_line_that_was_cut_is_passed_over(self, tmp_path: Path) -> None:
        write_journal(tmp_path, FRAMES, SCOPES, FUNCTION, end='{"kind": "eager", "signat')

        found = build(tmp_path, "h")

        assert len(found.definitions) == 1
        assert [note.id for note in found.notes] == ["recording_cut_short"]

    @pytest.mark.parametrize("wrong", [None, 7, "text", [], {}, [None], [[]], True])
    @pytest.mark.parametrize(
        "record", [FRAMES, SCOPES, FUNCTION, EAGER, SESSION_CONFIG, session(None)]
    )
    def test_wrong_values_never_do_more_than_a_note(
        self,
        tmp_path: Path,
        record: dict[str, Any],
        wrong: Any,  # noqa: ANN401
    ) -> None:
        for key in record.keys() - {"kind"}:
            damaged = {**record, key: wrong}
            whole = (FRAMES, SCOPES, FUNCTION, EAGER, SESSION_CONFIG, KERNELS, session(None))
            write_journal(tmp_path, *finished(*(damaged if r is record else r for r in whole)))

            found = build(tmp_path, "h")

            assert {note.id for note in found.notes} <= {"records_damaged"}
            files.write(found, tmp_path / "h.placement.json.gz")
            assert isinstance(files.read(tmp_path / "h.placement.json.gz"), CaptureFile)

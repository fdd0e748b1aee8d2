"""The error that ended a program, and the GPU that it requested and did not get."""

from dataclasses import replace
from typing import Any

import pytest

from tests.causes.examples import Example, captured
from traceanalyzer.capture_file.document import (
    CaptureFile,
    CaughtError,
    Frame,
    Scope,
    SessionConfig,
)
from traceanalyzer.diagnosis import diagnose
from traceanalyzer.format import counted
from traceanalyzer.health import trace_health
from traceanalyzer.placement.on_a_gpu import failure
from traceanalyzer.report.assemble import assemble

_CPU = {"name": "/device:CPU:0", "type": "CPU"}
_GPU = {"name": "/device:GPU:0", "type": "GPU"}
_NO_GPU: dict[str, Any] = {"gpu_used": False, "gpu_witness": "", "accelerators": {}}
_EAGER = (
    "Could not satisfy device specification '/job:localhost/replica:0/task:0/device:GPU:0'. "
    "enable_soft_placement=0. Supported device types [CPU]. All available devices "
    "[/job:localhost/replica:0/task:0/device:CPU:0]."
)


def ended(message: str, *there: Any, is_soft: bool = False) -> CaptureFile:  # noqa: ANN401 - JSON
    """A program that an error of its line 7 ended."""
    return CaptureFile(
        tool="",
        host="h",
        complete=True,
        devices={
            "context_made": True,
            "logical": [_CPU, *there],
            "soft_device_placement": is_soft,
        },
        errors=(
            CaughtError(
                where="program",
                type="InvalidArgumentError",
                message=message,
                raised=(0,),
                handler=-1,
            ),
        ),
        frames=(Frame(file="/project/train.py", line=7, code="<module>", is_user=True),),
    )


@pytest.mark.parametrize(
    "message",
    [
        _EAGER,
        "Unable to find any devices for spec /device:GPU:0 [Op:__inference_f_11]",
        "GPU:0 unknown device.",
        "Graph execution error:\n\nCannot assign a device for operation MatMul: /device:GPU:0 ...",
    ],
)
def test_what_tensorflow_says_of_a_missing_gpu_is_known(message: str) -> None:
    second = failure(ended("Unable to find any devices for spec /device:GPU:1", _GPU))
    assert second is not None
    assert second.missing == "GPU:1"
    found = failure(ended(message))
    assert found is not None
    assert (found.at, found.missing, found.is_strict) == ("train.py:7", "GPU:0", True)
    assert "GPU:0" in found.said
    assert not failure(replace(ended(message), errors=()))


def test_of_a_failed_function_the_error_is_said_and_not_where_its_node_was_made() -> None:
    """As TensorFlow writes it since 2.9."""
    found = failure(
        ended(
            "Graph execution error:\n\nDetected at node MatrixInverse defined at (most recent call "
            'last):\n  File "/project/train.py", line 7, in f\n\nInput is not invertible.\n'
            "\t [[{{node MatrixInverse}}]] [Op:__inference_f_67]"
        )
    )
    assert found is not None
    assert found.said == "Input is not invertible."


@pytest.mark.parametrize(
    ("message", "there"),
    [
        ("Matrix size-incompatible: In[0]: [2,3], In[1]: [2,3]", ()),
        ("OOM when allocating tensor on /job:localhost/task:0/device:GPU:0 by GPU_0_bfc", (_GPU,)),
        ("Could not satisfy device specification '/device:GPU:0'", (_GPU,)),
    ],
)
def test_other_errors_do_not_ask_for_one(message: str, there: tuple[dict[str, str], ...]) -> None:
    found = failure(ended(message, *there))
    assert found is not None
    assert found.missing == ""


@pytest.mark.parametrize("ops", [(), ({"name": "Mul", "type": "Mul"},)])
def test_a_report_leads_with_the_missing_gpu(ops: tuple[dict[str, Any], ...]) -> None:
    capture_file = replace(ended(_EAGER), log=("x] Could not find cuda drivers on your machine",))
    run = captured(
        Example(title="", ops=ops, facts=_NO_GPU).run(), capture_file, (None,) * len(ops)
    )
    report = assemble(diagnose(run))

    assert report.summary.verdict.startswith("The program failed at train.py:7: it requires GPU:0")
    assert "soft placement is off" in report.summary.verdict
    assert "Could not find cuda drivers" in report.summary.verdict
    (finding,) = report.findings
    assert (finding.sub_reason, finding.certainty) == ("gpu_required", "certain")
    assert finding.fixes[0].code == "tf.config.set_soft_device_placement(True)"
    assert "Could not satisfy" in finding.evidence[0].text
    assert "program_failed" in {health.id for health in trace_health(run)}


def test_a_session_that_fails_without_a_gpu_is_told_its_own_option() -> None:
    config = SessionConfig(is_own=True, is_local=True, soft_placement=False)
    capture_file = replace(
        ended(_EAGER), devices={"context_made": False}, session_configs=(config,), functions=()
    )
    run = captured(Example(title="", ops=(), facts=_NO_GPU).run(), capture_file, ())

    (finding,) = assemble(diagnose(run)).findings

    assert "allow_soft_placement" in finding.fixes[0].text


@pytest.mark.parametrize(
    ("message", "scopes", "gpus"),
    [
        (_EAGER, (), 1),
        ("Unable to find any devices for spec /device:GPU:1", (), 2),
        (_EAGER, ("/device:GPU:0", "/gpu:3"), 4),
        ("labels and data differ", ("/gpu:3",), 1),
    ],
)
def test_a_machine_with_the_gpus_that_were_missing_is_assumed(
    message: str, scopes: tuple[str, ...], gpus: int
) -> None:
    requested = tuple(Scope(device=device, frame=-1) for device in scopes)
    run = captured(
        Example(title="", ops=(), facts=_NO_GPU).run(),
        replace(ended(message), scopes=requested),
        (),
    )
    found = diagnose(run).on_a_gpu
    assert found is not None
    assert f"a machine with {counted(gpus, 'GPU')} " in found.assumption

"""Why no GPU was visible, if a capture recorded it."""

from tests.causes.examples import Example, captured
from traceanalyzer.capture_file.document import CaptureFile, SessionConfig
from traceanalyzer.causes import no_gpu_visible

_NO_GPU = {"gpu_used": False, "gpu_witness": "", "accelerators": {}}


def test_a_session_configured_without_a_gpu_is_certain() -> None:
    capture_file = CaptureFile(
        tool="",
        host="h",
        complete=True,
        devices={"context_made": False},
        session_configs=(
            SessionConfig(
                is_own=True, is_local=True, soft_placement=False, device_count={"GPU": 0}
            ),
        ),
    )
    example = Example(title="", ops=({"name": "RFFT", "type": "RFFT"},), facts=_NO_GPU)

    (finding,) = no_gpu_visible.check(captured(example.run(), capture_file, (None,)))

    assert (finding.certainty, finding.sub_reason) == ("certain", "hidden_by_session")
    assert [e.kind for e in finding.evidence] == ["hidden_by_session"]
    assert "device_count" in finding.fixes[0].text


def test_devices_that_the_program_listed_are_evidence() -> None:
    devices = {"context_made": True, "logical": [{"name": "/device:CPU:0", "type": "CPU"}]}
    capture_file = CaptureFile(tool="", host="h", complete=True, devices=devices)
    example = Example(title="", ops=({"name": "RFFT", "type": "RFFT"},), facts=_NO_GPU)

    (finding,) = no_gpu_visible.check(captured(example.run(), capture_file, (None,)))

    assert (finding.certainty, finding.sub_reason) == ("certain", None)
    assert [e.kind for e in finding.evidence] == ["devices"]

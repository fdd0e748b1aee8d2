"""Why TensorFlow sees no GPU, asked apart from the script."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from traceanalyzer.capture_file.journal import Journal
from traceanalyzer.capturing import no_gpu
from traceanalyzer.capturing.supervise import holding_signals

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.capture_file.document import Json

LINE = "I0000 00:00:1795266933.490061   28888 cudart_stub.cc:31] Could not find cuda drivers"
OLDER = "2026-11-21 12:26:08.510075: I tensorflow/tsl/cuda/cudart_stub.cc:28] no cuda drivers"


def fake_tensorflow(folder: Path, code: str) -> dict[str, str]:
    (folder / "tensorflow.py").write_text(code)
    return {**os.environ, "PYTHONPATH": str(folder), "TF_CPP_MIN_LOG_LEVEL": "3"}


def lines(variables: dict[str, str]) -> list[str]:
    with holding_signals() as mask:
        return no_gpu.device_lines([sys.executable], variables, mask)


def test_tensorflow_is_asked_with_its_log_on(tmp_path: Path) -> None:
    code = f"""
import os, sys
from types import SimpleNamespace
print("stdout")
print("other cuda", file=sys.stderr)
if os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0":
    for line in ({LINE!r}, {OLDER!r}):
        print(line, file=sys.stderr)
config = SimpleNamespace(list_physical_devices=lambda: None)
"""
    assert lines(fake_tensorflow(tmp_path, code)) == [LINE, OLDER]


def test_a_failure_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match=r"did not list its devices \(exit code 1\)"):
        lines(fake_tensorflow(tmp_path, "1 / 0"))
    monkeypatch.setattr(no_gpu, "_TIME_LIMIT_S", 0.5)
    with pytest.raises(OSError, match="did not list its devices within"):
        lines(fake_tensorflow(tmp_path, "import time; time.sleep(60)"))


CPU, GPU = {"name": "/physical_device:CPU:0", "type": "CPU"}, {"type": "GPU"}


@pytest.mark.parametrize(
    ("physical", "of_session", "is_so"),
    [
        (None, None, False),
        ([CPU], None, True),
        ([CPU, GPU], None, False),
        (None, ["CPU"], True),
        (None, ["CPU", "GPU"], False),
    ],
)
def test_no_gpu_is_only_stated_where_devices_were_listed(
    physical: list[Json] | None, of_session: list[Json] | None, *, is_so: bool
) -> None:
    journal = Journal()
    if physical:
        journal.last["devices"] = {"physical": physical}
    if of_session:
        journal.many["session_config"].append({"device_types": of_session})
    assert no_gpu.saw_no_gpu(journal) == is_so

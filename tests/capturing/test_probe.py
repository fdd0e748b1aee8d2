"""What TensorFlow says of devices, where the script kept it from saying so."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from traceanalyzer.capturing import probe
from traceanalyzer.capturing.supervise import holding_signals

if TYPE_CHECKING:
    from pathlib import Path

LINE = "I0000 00:00:1795266933.490061   28888 cudart_stub.cc:31] Could not find cuda drivers"


def fake_tensorflow(folder: Path, code: str) -> dict[str, str]:
    (folder / "tensorflow.py").write_text(code)
    return {**os.environ, "PYTHONPATH": str(folder), "TF_CPP_MIN_LOG_LEVEL": "3"}


def asked(variables: dict[str, str]) -> list[str]:
    with holding_signals() as mask:
        return probe.device_lines([sys.executable], variables, mask)


def test_asks_with_the_level_down_and_keeps_lines_about_devices(tmp_path: Path) -> None:
    code = f"""
import os, sys
from types import SimpleNamespace
print("stdout")
print("other", file=sys.stderr)
if os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0":
    print({LINE!r}, file=sys.stderr)
config = SimpleNamespace(list_physical_devices=lambda: None)
"""
    assert asked(fake_tensorflow(tmp_path, code)) == [LINE]


def test_tells_of_a_failure(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"it did not list its devices \(exit code 1\)"):
        asked(fake_tensorflow(tmp_path, "1 / 0"))


def test_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_TIME_LIMIT_S", 0.5)
    with pytest.raises(OSError, match="it did not list its devices within"):
        asked(fake_tensorflow(tmp_path, "import time; time.sleep(60)"))

"""Whose device a scope asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.capturing.recorder.ops.frames import FramePool
from traceanalyzer.capturing.recorder.ops.origins import UNKNOWN, Origins

if TYPE_CHECKING:
    from pathlib import Path

_CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def test_a_line_may_ask_for_a_device_in_full_one_time_and_in_short_another(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("with tf.device(name):\n")
    frames = FramePool()
    line = frames.add(str(program), 1, "<module>")
    origins = Origins(lambda _: -1)

    assert origins.of("CPU:0", frames, line) is None
    assert origins.of(_CPU, frames, line) == UNKNOWN

"""When this process began."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from traceanalyzer.launch.process_start import process_start_s

PROGRAM = """
import time
time.sleep(0.5)
from traceanalyzer.launch.process_start import process_start_s
print(process_start_s())
"""


def test_it_is_when_the_process_began_and_not_when_it_was_asked() -> None:
    before_s = time.time()
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE)
    after_s = time.time()
    out, _ = process.communicate(timeout=60)
    assert before_s - 0.05 <= float(out) <= after_s + 0.05


@pytest.mark.parametrize("content", ["", "1 (python) S 1", "0.5 0.5", "no numbers"])
def test_where_the_system_does_not_tell_it_is_now(
    monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: content)
    before_s = time.time()
    assert before_s <= process_start_s() <= time.time()

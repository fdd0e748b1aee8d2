"""When this process began."""

from __future__ import annotations

import subprocess
import sys
import time

PROGRAM = """
import time
time.sleep(0.5)
from traceanalyzer.capturing.process_start import process_start_s
print(process_start_s())
"""


def test_it_is_when_the_process_began_and_not_when_it_was_asked() -> None:
    before_s = time.time()
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE)
    after_s = time.time()
    out, _ = process.communicate(timeout=60)
    assert before_s - 0.05 <= float(out) <= after_s + 0.05

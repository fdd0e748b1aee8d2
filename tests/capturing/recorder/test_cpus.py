"""Which part of the CPUs other processes take."""

import subprocess
import sys

MEASURED = """
import subprocess, sys, time
from traceanalyzer.capturing.recorder.cpus import CpuUse

use = CpuUse()
with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
    time.sleep(0.3)
    print(bool(use.shares()))
    child.kill()
print(bool(use.shares()))
"""


def test_running_children_are_not_other_processes() -> None:
    found = subprocess.run([sys.executable, "-c", MEASURED], capture_output=True, check=True)
    assert found.stdout.split() == [b"False", b"True"]

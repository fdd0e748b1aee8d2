"""Which part of the CPUs other processes take."""

import subprocess
import sys
import time

from traceanalyzer.capturing.recorder.cpus import CpuUse


def test_running_children_are_not_other_processes() -> None:
    use = CpuUse()
    busy = [sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(busy) as child:
        time.sleep(0.5)
        during = use.shares()
        child.kill()
    assert during == {}
    assert use.shares()

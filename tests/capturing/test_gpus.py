"""What is told of GPUs: from a driver made up for the test, and from none."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from traceanalyzer.capturing.gpus import GpuWatch


class Nvml(ModuleType):
    """A driver with one GPU; what it does not know, it refuses."""

    def __init__(self, *processes: SimpleNamespace) -> None:
        super().__init__("pynvml")
        self.generations = [4, 1]  # it goes to sleep
        self.is_open = False
        self.answers: dict[str, Callable[[Any], Any]] = {
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetName": lambda _: "NVIDIA Test",
            "nvmlDeviceGetMemoryInfo": lambda _: SimpleNamespace(total=8 << 30),
            "nvmlDeviceGetCurrPcieLinkGeneration": lambda _: self._generation(),
            "nvmlDeviceGetCurrPcieLinkWidth": lambda _: 16,
            "nvmlDeviceGetComputeRunningProcesses": lambda _: processes,
            "nvmlSystemGetProcessName": lambda pid: b"python" if pid == 1 else b"other",
        }

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        if name not in self.__dict__.get("answers", {}):
            raise AttributeError(name)
        return self.answers[name]

    def _generation(self) -> int:
        return self.generations.pop(0) if len(self.generations) > 1 else self.generations[0]

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's
        self.is_open = True

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.is_open = False

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 1


def process(pid: int, used: int | None = 1 << 20) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, usedGpuMemory=used)


def watched(monkeypatch: pytest.MonkeyPatch, nvml: Nvml) -> list[dict[str, Any]]:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr("traceanalyzer.capturing.gpus._EVERY_S", 0.01)
    watch = GpuWatch()
    watch.start(os.getpid())
    until = time.monotonic() + 10
    while len(nvml.generations) > 1 and time.monotonic() < until:
        time.sleep(0.01)
    return watch.finish()


def test_tells_what_the_driver_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = Nvml()
    assert watched(monkeypatch, nvml) == [
        {
            "index": 0,
            "name": "NVIDIA Test",
            "memory_total_bytes": 8 << 30,
            "pcie_generation": 4,
            "pcie_width": 16,
            "other_processes": [],
        }
    ]
    assert not nvml.is_open


def test_the_others_are_those_that_are_not_the_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        seen = [process(os.getpid()), process(child.pid), process(1), process(2**22 + 5, None)]
        [gpu] = watched(monkeypatch, Nvml(*seen))
    assert gpu["other_processes"] == [
        {"pid": 1, "name": "python", "memory_bytes": 1 << 20},
        {"pid": 2**22 + 5, "name": "other", "memory_bytes": None},
    ]


def test_what_comes_later_under_a_number_from_outside_may_be_the_script(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nvml = Nvml()
    first: list[list[SimpleNamespace]] = [[]]
    nvml.answers["nvmlDeviceGetComputeRunningProcesses"] = lambda _: (
        first.pop() if first else [process(2**22 + 5)]
    )
    [gpu] = watched(monkeypatch, nvml)
    assert gpu["other_processes"] == []


def test_tells_nothing_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = Nvml()
    nvml.generations = [0]
    monkeypatch.setattr(Nvml, "nvmlInit", lambda _: 1 / 0)
    assert watched(monkeypatch, nvml) == []

"""Queries the GPUs while the script runs, through NVML (nvidia-ml-py).

TensorFlow does not know which other processes use a GPU, or how much memory they use. A query that
fails, for example without a driver, has no effect on the capture.
"""

import contextlib
import os
import threading
from typing import Any, Final

_EVERY_S: Final = 1.0
_PATIENCE_S: Final = 3.0  # a faulty driver may never answer


class GpuWatch:
    """Polls the GPUs once a second, in a separate thread."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._gpus: list[_Gpu] = []
        self._script = 0
        self._thread = threading.Thread(target=self._run, name="gpus", daemon=True)

    def start(self, script: int) -> None:
        """Start polling. Other processes are those outside the process group of `script`."""
        self._script = script
        self._thread.start()

    def finish(self) -> list[dict[str, Any]]:
        """Stop polling, and return a JSON record for each GPU, with null for unknown values.

        The PCIe link speed is the highest one seen, because idle GPUs lower it.
        """
        if self._thread.ident is None:
            return []
        self._ended.set()
        self._thread.join(_PATIENCE_S)
        return [gpu.record() for gpu in self._gpus]

    def _run(self) -> None:
        with contextlib.suppress(Exception):  # no library, no driver, no permission
            import pynvml  # noqa: PLC0415 - opens the driver's library, if there is one

            pynvml.nvmlInit()
            try:
                self._gpus = [_Gpu(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())]
                while True:
                    for gpu in self._gpus:
                        gpu.look(self._script)
                    if self._ended.wait(_EVERY_S):
                        break
            finally:
                pynvml.nvmlShutdown()


class _Gpu:
    """One GPU: its properties and measurements so far."""

    def __init__(self, nvml: Any, index: int) -> None:  # noqa: ANN401 - pynvml, or a test's
        self._nvml = nvml
        self._handle = nvml.nvmlDeviceGetHandleByIndex(index)
        memory = self._ask("nvmlDeviceGetMemoryInfo")
        self._facts = {
            "index": index,
            "name": self._ask("nvmlDeviceGetName"),
            "memory_total_bytes": memory and int(memory.total),
        }
        self._link = (0, 0)  # generation and width, 0 if unknown
        self._processes: dict[int, dict[str, Any]] = {}
        self._is_first = True

    def look(self, script: int) -> None:
        generation = self._ask("nvmlDeviceGetCurrPcieLinkGeneration")
        width = self._ask("nvmlDeviceGetCurrPcieLinkWidth")
        if generation and width:
            self._link = max(self._link, (generation, width))
        for process in self._ask("nvmlDeviceGetComputeRunningProcesses") or []:
            pid, used = int(process.pid), process.usedGpuMemory
            if _is_other(pid, script, is_first=self._is_first):
                unknown = {"pid": pid, "name": None, "memory_bytes": None}
                known = self._processes.setdefault(pid, unknown)
                known["name"] = known["name"] or self._ask("nvmlSystemGetProcessName", pid)
                if used is not None:
                    known["memory_bytes"] = max(known["memory_bytes"] or 0, int(used))
        self._is_first = False

    def record(self) -> dict[str, Any]:
        generation, width = self._link
        return self._facts | {
            "pcie_generation": generation or None,
            "pcie_width": width or None,
            "other_processes": list(self._processes.values()),
        }

    def _ask(self, question: str, *arguments: int) -> Any:  # noqa: ANN401 - no types
        """Call an NVML function, by default with this GPU's handle; return None if it fails."""
        try:
            answer = getattr(self._nvml, question)(*arguments or (self._handle,))
        except Exception:  # noqa: BLE001 - each question has its own errors
            return None
        # Older versions of the binding return bytes.
        return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer


def _is_other(pid: int, script: int, *, is_first: bool) -> bool:
    """Return whether a process on the GPU is not in the process group of the script.

    In a container, the driver may report process ids of the host machine. Such a process counts as
    another program's if it used the GPU before the script could.
    """
    try:
        return os.getpgid(pid) != os.getpgid(script)
    except OSError:
        return is_first

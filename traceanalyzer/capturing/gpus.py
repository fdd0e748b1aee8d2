"""Queries the driver about the GPUs while the script runs, through NVML (nvidia-ml-py).

TensorFlow does not know which other processes use a GPU or how much of its memory. Failed queries,
e.g. without a driver, are left out: they never disturb the capture.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

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
        """Begin to watch; all processes except the script and its descendants count as others."""
        self._script = script
        self._thread.start()

    def finish(self) -> list[dict[str, Any]]:
        """Stop, and return a record for each GPU, of JSON's types, with null for unknown values.

        The link is the fastest that was seen: an idle GPU slows it down.
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
        memory = _answer(nvml.nvmlDeviceGetMemoryInfo, self._handle)
        self._facts = {
            "index": index,
            "name": _text(_answer(nvml.nvmlDeviceGetName, self._handle)),
            "memory_total_bytes": memory and int(memory.total),
        }
        self._link: tuple[int | None, int | None] = (None, None)
        self._utilisation: list[int] = []
        self._processes: dict[int, dict[str, Any]] = {}
        self._is_first = True

    def look(self, script: int) -> None:
        nvml, handle = self._nvml, self._handle
        generation = _answer(nvml.nvmlDeviceGetCurrPcieLinkGeneration, handle)
        width = _answer(nvml.nvmlDeviceGetCurrPcieLinkWidth, handle)
        if generation and width:
            self._link = max((self._link[0] or 0, self._link[1] or 0), (generation, width))
        rates = _answer(nvml.nvmlDeviceGetUtilizationRates, handle)
        if rates:
            self._utilisation.append(int(rates.gpu))
        for process in _answer(nvml.nvmlDeviceGetComputeRunningProcesses, handle) or []:
            pid, used = int(process.pid), process.usedGpuMemory
            if not _is_other(pid, script, is_first=self._is_first):
                continue
            if pid not in self._processes:
                name = _text(_answer(nvml.nvmlSystemGetProcessName, pid))
                self._processes[pid] = {"pid": pid, "name": name, "memory_bytes": None}
            if used is not None:
                known = self._processes[pid]
                known["memory_bytes"] = max(known["memory_bytes"] or 0, int(used))
        self._is_first = False

    def record(self) -> dict[str, Any]:
        seen, (generation, width) = self._utilisation, self._link
        mean = round(sum(seen) / len(seen), 1) if seen else None
        return self._facts | {
            "utilisation_percent": {"mean": mean, "max": max(seen)} if seen else None,
            "pcie_generation": generation,
            "pcie_width": width,
            "other_processes": list(self._processes.values()),
        }


def _is_other(pid: int, script: int, *, is_first: bool) -> bool:
    """Whether a process on the GPU is not the script's.

    In a container, the driver may use process ids of the host machine. For these, one fact helps:
    a process that used the GPU before the script could do so is another process.
    """
    while pid > 1:
        if pid == script:
            return False
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            pid = int(stat.rpartition(")")[2].split()[1])  # the name before may hold anything
        except (OSError, ValueError, IndexError):
            return is_first
    return True


def _answer(question: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401 - no types
    """Return the driver's answer, or None where it has none for this GPU."""
    try:
        return question(*arguments)
    except Exception:  # noqa: BLE001 - each question has errors of its own
        return None


def _text(value: str | bytes | None) -> str | None:
    """Return a text; older versions of the binding give bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

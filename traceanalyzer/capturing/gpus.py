"""What the driver says of the GPUs while the script runs, through NVML (nvidia-ml-py).

TensorFlow does not know who else uses a GPU or how much of its memory. What fails, such as where
there is no driver, is left out: this never disturbs the capture.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_EVERY_S: Final = 1.0
_PATIENCE_S: Final = 3.0  # a driver in trouble can take for ever to answer


@dataclass(kw_only=True)
class _Gpu:
    """One GPU: what it is, and what was seen of it so far."""

    handle: Any
    facts: dict[str, Any]
    link: tuple[int, int] | None = None
    utilisation: list[int] = field(default_factory=list)
    processes: dict[int, dict[str, Any]] = field(default_factory=dict)
    samples: int = 0


class GpuWatch:
    """Looks at the GPUs once a second, in a thread of its own."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._gpus: list[_Gpu] = []
        self._script = 0
        self._thread = threading.Thread(target=self._run, name="gpus", daemon=True)

    def start(self, script: int) -> None:
        """Begin to watch; other processes are those that are not the script or its descendants."""
        self._script = script
        self._thread.start()

    def finish(self) -> list[dict[str, Any]]:
        """Stop, and return a record for each GPU, of JSON's types, with null for what is not known.

        The link is the best that was seen: a GPU with nothing to do lowers it.
        """
        if self._thread.ident is None:
            return []
        self._ended.set()
        self._thread.join(_PATIENCE_S)
        return [_record(gpu) for gpu in self._gpus]

    def _run(self) -> None:
        with contextlib.suppress(Exception):  # no library, no driver, no permission
            import pynvml  # noqa: PLC0415 - opens the driver's library, if there is one

            pynvml.nvmlInit()
            try:
                self._gpus = _gpus(pynvml)
                while True:
                    for gpu in self._gpus:
                        _sample(pynvml, gpu, self._script)
                    if self._ended.wait(_EVERY_S):
                        break
            finally:
                pynvml.nvmlShutdown()


def _gpus(nvml: Any) -> list[_Gpu]:  # noqa: ANN401 - the module pynvml, or a test's
    gpus = []
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        memory = _answer(nvml.nvmlDeviceGetMemoryInfo, handle)
        facts = {
            "index": index,
            "name": _answer(lambda gpu: _text(nvml.nvmlDeviceGetName(gpu)), handle),
            "memory_total_bytes": memory and int(memory.total),
        }
        gpus.append(_Gpu(handle=handle, facts=facts))
    return gpus


def _sample(nvml: Any, gpu: _Gpu, script: int) -> None:  # noqa: ANN401
    link = (
        _answer(nvml.nvmlDeviceGetCurrPcieLinkGeneration, gpu.handle),
        _answer(nvml.nvmlDeviceGetCurrPcieLinkWidth, gpu.handle),
    )
    if all(link):
        gpu.link = max(gpu.link or (0, 0), (int(link[0]), int(link[1])))
    rates = _answer(nvml.nvmlDeviceGetUtilizationRates, gpu.handle)
    if rates:
        gpu.utilisation.append(int(rates.gpu))
    for process in _answer(nvml.nvmlDeviceGetComputeRunningProcesses, gpu.handle) or []:
        if not _is_other(process.pid, script, is_first=gpu.samples == 0):
            continue
        used = process.usedGpuMemory
        known = gpu.processes.setdefault(
            process.pid,
            {
                "pid": int(process.pid),
                "name": _answer(lambda pid: _text(nvml.nvmlSystemGetProcessName(pid)), process.pid),
                "memory_bytes": None,
            },
        )
        if used is not None:
            known["memory_bytes"] = max(known["memory_bytes"] or 0, int(used))
    gpu.samples += 1


def _is_other(pid: int, script: int, *, is_first: bool) -> bool:
    """Whether a process on the GPU is not the script's.

    In a container the driver may name processes by numbers of the machine outside. Of such a number
    only this is known: if it was there before the script can have got so far, it is another's.
    """
    ancestor = pid
    while ancestor > 1:
        if ancestor == script:
            return False
        parent = _parent(ancestor)
        if parent is None:
            return is_first
        ancestor = parent
    return True


def _parent(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return int(stat.rpartition(")")[2].split()[1])  # the name before may hold anything
    except (OSError, ValueError, IndexError):
        return None


def _record(gpu: _Gpu) -> dict[str, Any]:
    seen = gpu.utilisation
    return gpu.facts | {
        "utilisation_percent": (
            {"mean": round(sum(seen) / len(seen), 1), "max": max(seen)} if seen else None
        ),
        "pcie_generation": gpu.link and gpu.link[0],
        "pcie_width": gpu.link and gpu.link[1],
        "other_processes": [dict(process) for process in gpu.processes.values()],
    }


def _answer(question: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401 - no types
    """Return the driver's answer, or None where it has none for this GPU."""
    try:
        return question(*arguments)
    except Exception:  # noqa: BLE001 - each question has errors of its own
        return None


def _text(value: str | bytes) -> str:
    """Return a text; older versions of the binding give bytes."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

"""Measures how much CPU time other processes use during a session."""

from __future__ import annotations

import glob
import os
import time

_IDLE = (3, 4)  # fields of /proc/stat (proc(5)): idle, and waiting for a disk
_FIELDS = 8  # up to the time taken by other virtual machines; that of guests is in `user`, too
_SHORTEST_S = 0.2  # the kernel counts ticks of 10 ms


class CpuUse:
    """Usage of the CPUs available to the program, since this object was created."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._began = _seconds()

    def shares(self) -> dict[str, float]:
        """Return the CPU time of other processes and the idle time, as shares; {} if unknown.

        The shares are unknown while child processes run: `os.times()` does not count their time.
        """
        began, now = self._began, _seconds()
        if began is None or now is None or time.monotonic() - self._began_s < _SHORTEST_S:
            return {}
        idle_s, busy_s, own_s = (after - before for before, after in zip(began, now))
        total_s = idle_s + busy_s
        if total_s <= 0:
            return {}
        others = max(0.0, busy_s - own_s) / total_s
        return {"others_share": round(others, 4), "idle_share": round(idle_s / total_s, 4)}


def _seconds() -> tuple[float, float, float] | None:
    """Return the idle time and busy time of the CPUs, and this process's CPU time."""
    try:
        allowed = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        with open("/proc/stat") as file:
            rows = [line.split() for line in file if line.split(" ", 1)[0] in allowed]
        ticks = [[int(field) for field in row[1 : 1 + _FIELDS]] for row in rows]
        idle = sum(row[at] for row in ticks for at in _IDLE)
        for path in glob.glob("/proc/self/task/*/children"):
            with open(path) as file:
                if file.read().strip():
                    return None
        used, per_second = os.times(), os.sysconf("SC_CLK_TCK")
        own_s = used.user + used.system + used.children_user + used.children_system
        return idle / per_second, (sum(map(sum, ticks)) - idle) / per_second, own_s
    except (OSError, ValueError, IndexError):
        return None

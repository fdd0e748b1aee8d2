"""When this process began."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

__all__ = ["process_start_s"]

_START_TIME: Final = 19  # of /proc/PID/stat: the 22nd field of proc(5), counted from after the name
_RESOLUTION_S: Final = 0.02  # of both files; Python takes longer to read its first line


def process_start_s() -> float:
    """Return when this process began, seconds since 1970; now, where the system does not tell."""
    now_s = time.time()
    try:
        fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        up_s = float(Path("/proc/uptime").read_text(encoding="utf-8").split()[0])
        age_s = up_s - int(fields[_START_TIME]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return now_s
    # In some containers `/proc/uptime` tells of the container, and is less.
    return now_s - max(age_s - _RESOLUTION_S, 0.0)

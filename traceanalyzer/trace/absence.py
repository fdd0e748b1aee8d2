"""Says in one line why a path holds no trace, and what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.format import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

CAPTURE_FILE: Final = ".placement.json.gz"
TOOL_FILE: Final = re.compile(
    r"\.(overview_page|input_pipeline(_analyzer)?|tensorflow_stats|framework_op_stats|kernel_stats"
    r"|memory_profile|memory_viewer|op_profile|pod_viewer|dcn_collective_stats|op_stats|hlo_proto"
    r"|hlo_stats|roofline_model|tf_data_bottleneck_analysis|inference_profile)"
    r"\.(pb|json|json\.gz)$"
)
_RECORD: Final = "record one with `traceanalyzer capture script.py`"


@dataclass(kw_only=True)
class Walk:
    """What a search through directories met besides traces."""

    directories: int = 0
    entries: int = 0
    events_files: int = 0
    profile_markers: int = 0
    empty_runs: int = 0
    capture_files: int = 0
    unreadable: int = 0
    cut_short: bool = False


def reason(error: Exception) -> str:
    """Return why a file or directory cannot be read."""
    text = error.strerror if isinstance(error, OSError) else None
    return printable((text or str(error)).lower())


def missing(path: Path) -> str:
    """Say that a path does not exist, and which part of it does."""
    try:
        above = next((p for p in path.absolute().parents if p.exists()), None)
    except OSError:
        above = None
    nearest = f" ({printable(above)} exists)" if above else ""
    return f"{printable(path)}: there is no such file or directory{nearest}; check the path"


def no_trace(root: Path, walk: Walk, tool_files: Iterable[Path]) -> str:
    """Say why a directory has no trace, by the first reason that fits."""
    unread = f", {counted(walk.unreadable, 'more')} could not be read" if walk.unreadable else ""
    if tools := list(tool_files):
        why = only_tool_data(tools)
    elif walk.unreadable and walk.entries == 0:
        why = "the directory cannot be read; check its permissions"
    elif walk.empty_runs:
        why = (
            f"{counted(walk.empty_runs, 'run')} without files: the profiler did not finish, or its "
            f"files were not copied; copy them, or {_RECORD}"
        )
    elif walk.capture_files:
        why = (
            f"{counted(walk.capture_files, 'capture file')} (HOST{CAPTURE_FILE}), but "
            f"no trace beside it; copy HOST.xplane.pb to the same directory, or {_RECORD}"
        )
    elif walk.profile_markers:
        why = (
            "the events files show that a profile was recorded, but plugins/profile is missing; "
            f"copy that directory too, or {_RECORD}"
        )
    elif walk.events_files:
        why = (
            f"{counted(walk.events_files, 'events file')} but no profile; set "
            f"profile_batch=(10, 20) in the TensorBoard callback, or {_RECORD}"
        )
    elif walk.cut_short:
        why = (
            f"no trace among the first {walk.entries:,} entries, where the search stopped{unread}; "
            "give the log directory itself"
        )
    elif walk.entries == 0:
        why = f"the directory is empty; give the log directory of a run, or {_RECORD}"
    else:
        why = (
            "no trace (HOST.xplane.pb, HOST.trace.json.gz or local.trace) in "
            f"{counted(walk.directories, 'directory')}{unread}; give the log directory of a run, "
            f"or {_RECORD}"
        )
    return f"{printable(root)}: {why}"


def only_tool_data(tool_files: Iterable[Path]) -> str:
    """Say that a run only has data converted for TensorBoard's tools."""
    tools = sorted({m.group(1) for f in tool_files if (m := TOOL_FILE.search(f.name))})
    kinds = f" ({', '.join(tools)})" if tools else ""
    return (
        f"only data that TensorFlow converted for TensorBoard's tools{kinds}, no trace; copy "
        "HOST.xplane.pb or HOST.trace.json.gz from where it was recorded, or record again"
    )

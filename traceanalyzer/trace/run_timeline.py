"""Adds the events of a session's timeline to a trace.

TensorFlow 1's `timeline.Timeline(run_metadata.step_stats)` writes JSON for Chrome's trace viewer
(tensorflow/python/client/timeline.py), and so does the `ProfilerHook` of its Estimators. Its
processes are not those of the profiler: `DEVICE Compute` has the ops that ran on a device, and
`DEVICE/stream:N Compute` the kernels and copies of a GPU's stream. Those of `stream:all` and
`memcpy` are also in the streams, if these were recorded. Threads are lanes without a meaning.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from traceanalyzer.trace.builder import TraceBuilder

FORMAT: Final = "timeline"
#: The stat of an op's event with the full name of the device that ran it.
RAN_ON: Final = "ran_on"

_PROCESS: Final = re.compile(
    r"(?P<task>/job:[^/]+/replica:\d+/task:\d+)?/(?:device:)?(?P<type>[A-Za-z_]+):(?P<number>\d+)"
    r"(?:/(?:stream:(?P<stream>\d+)|(?P<all>stream:all|memcpy)))? Compute"
)
_LOCAL: Final = "/job:localhost/replica:0/task:0"
_BEGIN: Final = "_SOURCE"
_ENDS: Final = frozenset({_BEGIN, "_SINK"})  # nodes that every graph has, which compute nothing
_COPY: Final = re.compile(r"MEMCPY(\w+)")
_EDGE: Final = re.compile(r"edge_\d+_(.+)")
_LANES: Final = 1 << 20  # of a process
_HOST: Final = 1 << 40  # numbers of planes, apart from process numbers
_DEVICES: Final = _HOST + 1


@dataclass(frozen=True, kw_only=True)
class _Source:
    device: str  #: full name
    stream: str | None  #: of a GPU, or None for the ops that ran on the device
    repeats: bool  #: whether its events are those of other processes


class RunTimeline:
    """The processes of a session's timeline, and the planes and lines that they become."""

    def __init__(self, processes: Mapping[int, str]) -> None:
        found = ((pid, _PROCESS.fullmatch(name)) for pid, name in processes.items())
        matches = {pid: match for pid, match in found if match}
        with_streams = {_device(match) for match in matches.values() if match["stream"]}
        self._processes = {
            pid: _Source(
                device=_device(match),
                stream=match["stream"] or match["all"],
                repeats=bool(match["all"]) and _device(match) in with_streams,
            )
            for pid, match in matches.items()
        }
        self._planes = {_short(each.device): 0 for each in self._processes.values() if each.stream}
        self._planes = {name: _DEVICES + k for k, name in enumerate(self._planes)}
        self._lines: set[tuple[int, int]] = set()
        self._begun: Counter[int] = Counter()  # runs, by process

    @property
    def is_one_run(self) -> bool:
        """Whether the events are of one call of `Session.run`, and not of several merged files.

        Each run of a graph begins on each device with `_SOURCE`, also if the graph has loops.
        """
        return bool(self._begun) and max(self._begun.values()) == 1

    def __bool__(self) -> bool:
        return bool(self._processes)

    def __contains__(self, pid: int) -> bool:
        return pid in self._processes

    def name_planes(self, builder: TraceBuilder) -> None:
        """Name the planes of a trace that gets the events."""
        if self._processes:
            builder.name_plane(_HOST, "/host:CPU")
        for name, number in self._planes.items():
            builder.name_plane(number, name)

    def add(  # noqa: PLR0913, PLR0917 - the fields of an event
        self,
        builder: TraceBuilder,
        pid: int,
        lane: int,
        start_ps: int,
        duration_ps: int,
        args: Mapping[str, Any],
    ) -> None:
        """Add an event of one of the processes, unless it repeats another one."""
        process = self._processes[pid]
        name, op_type = str(args.get("name", "")), str(args.get("op", ""))
        if name == _BEGIN and process.stream is None:
            self._begun[pid] += 1
        if process.repeats or name in _ENDS:
            return
        line = pid * _LANES + lane % _LANES
        stats: dict[str, str | float]
        if process.stream is None:
            plane, line_name = _HOST, f"{_short(process.device)[1:]} {lane}"
            # Received from another machine, which has its own label.
            op_type = "_Recv" if op_type == "RecvTensor" else op_type
            shown, display_name, stats = f"{name}:{op_type}", op_type, {RAN_ON: process.device}
        else:
            plane, line_name = self._planes[_short(process.device)], f"Stream {process.stream}"
            display_name = ""
            if copy := _COPY.fullmatch(op_type):
                edge = _EDGE.fullmatch(name)
                shown, stats = f"Memcpy{copy[1]}", {"from": edge[1]} if edge else {}
            else:
                shown, stats = op_type, {"tf_op": f"{name}:{op_type}"}
        if (plane, line) not in self._lines:
            self._lines.add((plane, line))
            builder.name_line(plane, line, line_name)
        builder.event(
            (plane, line), shown, start_ps, duration_ps, display_name=display_name, stats=stats
        )


def _device(match: re.Match[str]) -> str:
    return f"{match['task'] or _LOCAL}/device:{match['type'].upper()}:{match['number']}"


def _short(device: str) -> str:
    return device[device.index("/device:") :]

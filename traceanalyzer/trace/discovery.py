"""Finds the runs at a path, and the trace of each host in them.

TensorFlow writes `<logdir>/plugins/profile/<run>/HOST.xplane.pb`; Keras up to TF 2.6 puts `train/`
before `plugins/`, and older versions write other files. Any directory with trace files is a run.
"""

import logging
import os
import re
import stat
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from traceanalyzer.errors import TraceFormatError, TraceNotFoundError
from traceanalyzer.format import counted, encodable, printable

# Formats, as in `Trace.format`; whether a file is gzipped is checked when it is opened.
XPLANE: Final = "xplane"
TRACE_JSON: Final = "trace.json"
LOCAL_TRACE: Final = "local.trace"
CAPTURE_FILE: Final = "capture file"  # no trace: the script was killed, or its profiler failed
UNKNOWN: Final = "unknown"  # the name does not show it, the content will

# Log directories are a few levels deep and have thousands of entries. For a home directory or `/`,
# an answer in seconds is worth more than a complete one.
MAX_DEPTH = 12
MAX_ENTRIES = 200_000

_log = logging.getLogger(__name__)

# Best first: an xplane has every event, the others only a part.
_FORMATS: Final = {
    ".xplane.pb": XPLANE,
    ".xplane.pb.gz": XPLANE,
    ".trace.json.gz": TRACE_JSON,
    ".trace.json": TRACE_JSON,
    ".local.trace": LOCAL_TRACE,
}
_CAPTURE_FILE: Final = ".placement.json.gz"
NO_TRACE: Final = "there is no trace beside the capture file, so times are unknown"
_TOOL_FILE: Final = re.compile(
    r"\.(overview_page|input_pipeline(_analyzer)?|tensorflow_stats|framework_op_stats|kernel_stats"
    r"|memory_profile|memory_viewer|op_profile|pod_viewer|dcn_collective_stats|op_stats|hlo_proto"
    r"|hlo_stats|roofline_model|tf_data_bottleneck_analysis|inference_profile)"
    r"\.(pb|json|json\.gz)$"
)
EVENTS_FILE: Final = (
    "an events file of TensorBoard, not a profile; give the directory that contains plugins/profile"
)
_INSTEAD: Final = "not a trace; give the run's directory, or its HOST.xplane.pb"
_NO_TRACES: Final = (
    (re.compile("tfevents"), EVENTS_FILE),
    (_TOOL_FILE, f"data for one of TensorBoard's tools, {_INSTEAD}"),
    (re.compile(re.escape(_CAPTURE_FILE) + "$"), f"a capture file, {_INSTEAD}"),
)
_TIMESTAMP: Final = re.compile(r"[0-9]{4}(?:[_-][0-9]{2}){5}")
_PROFILES: Final = ("plugins", "profile")  # the folders that runs are in
_MOST_NAMES: Final = 20  # of runs, in an error


@dataclass(frozen=True, kw_only=True)
class HostFile:
    """The trace file of one host, and the capture file beside it."""

    host: str  #: from the file's name; bytes that are not UTF-8 are escaped
    path: Path
    #: `xplane`, `trace.json`, `local.trace`; `capture file` for no trace, `unknown` if only the
    #: content shows it.
    format: str
    note: str = ""  #: a note for the user about the choice of this file
    capture_file: Path | None = None  #: beside it


@dataclass(frozen=True, kw_only=True)
class RunFiles:
    """The files of one run."""

    name: str  #: of its directory; with that of the log directory if runs share it
    path: Path
    hosts: tuple[HostFile, ...]  #: by name; empty if only tool data was kept
    tool_files: tuple[str, ...] = ()  #: data that TensorFlow converted for TensorBoard's tools
    recorded: float = 0.0  #: seconds since 1970, about


def find_runs(path: str | os.PathLike[str]) -> tuple[RunFiles, ...]:
    """Find the runs at or below a path, newest first. Runs without a trace come last.

    A run's time comes from its name (`2021_02_03_21_48_13`) or else from its newest trace file.
    `path` is a log directory or one above it, `plugins`, `plugins/profile`, a run, or a trace.

    Raises:
        TraceNotFoundError: There is no trace.
        TraceFormatError: The path is a file that is not a trace.
    """
    root = Path(path)
    try:
        mode = root.stat().st_mode
    except FileNotFoundError:
        msg = f"{printable(root)}: there is no such file or directory; check the path"
        raise TraceNotFoundError(msg) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        why = printable((getattr(error, "strerror", None) or str(error)).lower())
        msg = f"{printable(root)}: cannot be read ({why}); check the path and its permissions"
        raise TraceNotFoundError(msg) from error
    if stat.S_ISREG(mode):
        return (_single(root),)
    if not stat.S_ISDIR(mode):
        why = "this is a device, pipe, or socket; give a trace file or a log directory"
        msg = f"{printable(root)}: {why}"
        raise TraceFormatError(msg)
    seen: Counter[str] = Counter()
    found = [run for folder, files in _folders(root, seen) if (run := _run_in(folder, files, seen))]
    if seen["cut_short"]:
        _log.warning(
            "%s: the search stopped after %d entries, so later runs were not found",
            printable(root),
            seen["entries"],
        )
    if not any(run.hosts for run in found):
        tools = [file for run in found for file in run.tool_files]
        msg = f"{printable(root)}: {_only_tool_data(tools) if tools else _why_no_trace(seen)}"
        raise TraceNotFoundError(msg)
    found.sort(key=lambda run: (bool(run.hosts), run.recorded, str(run.path)), reverse=True)
    for is_whole in (False, True):
        # Runs that share a name are named by their log directory, too, as in TensorBoard; if that
        # is not enough, by the whole path.
        shared = Counter(run.name for run in found)
        found = [
            replace(run, name=_name_below(root, run.path, is_whole=is_whole))
            if shared[run.name] > 1
            else run
            for run in found
        ]
    return tuple(found)


def choose_run(runs: Sequence[RunFiles], name: str | None = None) -> RunFiles:
    """Return the newest run that has a trace, or the run named `name`.

    Raises:
        TraceNotFoundError: There is no such run, or it has no trace.
    """
    if name is None:
        matches = [r for r in runs if r.hosts][:1]
        problem = "no run has a trace"
    else:
        # The directory alone is enough if only one run has it.
        matches = [r for r in runs if r.name == name] or [r for r in runs if r.path.name == name]
        found = f"{len(matches)} runs are named" if matches else "there is no run"
        problem = f"{found} {printable(name)}"
    if len(matches) != 1:
        names = ", ".join(printable(r.name) for r in runs[:_MOST_NAMES]) or "none"
        more = f" and {len(runs) - _MOST_NAMES} more" if len(runs) > _MOST_NAMES else ""
        msg = f"{problem}; choose one of: {names}{more}"
        raise TraceNotFoundError(msg)
    (chosen,) = matches
    if not chosen.hosts:
        msg = f"{printable(chosen.name)}: {_only_tool_data(chosen.tool_files)}"
        raise TraceNotFoundError(msg)
    return chosen


def time_in_name(run_name: str) -> float | None:
    """Return the time in a run's name, in seconds since 1970, or None if it has none.

    The name has local time without a zone, so the result can be off by up to 14 hours.
    """
    if not _TIMESTAMP.fullmatch(run_name):
        return None
    try:
        time = datetime.strptime(re.sub(r"\D", "", run_name), "%Y%m%d%H%M%S")  # noqa: DTZ007 - next
    except ValueError:
        return None
    return time.replace(tzinfo=UTC).timestamp()


def _single(file: Path) -> RunFiles:
    for pattern, words in _NO_TRACES:
        if pattern.search(file.name):
            msg = f"{printable(file.name)}: {words}"
            raise TraceFormatError(msg)
    host, kind = _name_parts(file.name)
    found = _host_file(file, host, kind)
    name = _directory_name(file.parent) if _is_run_directory(file.parent) else host
    return RunFiles(name=name, path=file.parent, hosts=(found,))


def _host_file(file: Path, host: str, kind: str, note: str = "") -> HostFile:
    beside = file.with_name(f"{host}{_CAPTURE_FILE}")
    return HostFile(
        host=encodable(host),
        path=file,
        format=kind,
        note=note,
        capture_file=beside if kind != UNKNOWN and beside.exists() else None,
    )


def _name_parts(name: str, *, in_profile: bool = False) -> tuple[str, str]:
    """Split a file's name into host and format."""
    if name == LOCAL_TRACE:
        return "local", LOCAL_TRACE
    for suffix, kind in _FORMATS.items():
        if name.endswith(suffix) and name != suffix:
            return name.removesuffix(suffix), kind
    if in_profile and name.endswith(".trace"):  # TF 2.0 and 2.1 wrote these for remote hosts
        return name.removesuffix(".trace"), LOCAL_TRACE
    return name.split(".", 1)[0] or name, UNKNOWN


def _folders(root: Path, seen: Counter[str]) -> Iterator[tuple[Path, list[str]]]:
    """Walk folders breadth first, so that runs near the root are found before a limit is reached.

    Links are followed, since log directories are often linked, but no directory is visited twice.
    """
    visited: set[tuple[int, int]] = set()
    queue: deque[tuple[Path, int]] = deque([(root, 0)])
    while queue and seen["entries"] <= MAX_ENTRIES:
        directory, depth = queue.popleft()
        files: list[str] = []
        try:
            status = directory.stat()
            if (status.st_dev, status.st_ino) in visited:
                continue
            visited.add((status.st_dev, status.st_ino))
            with os.scandir(directory) as entries:
                for entry in entries:
                    seen["entries"] += 1
                    if seen["entries"] > MAX_ENTRIES:
                        seen["cut_short"] = 1
                        break
                    if not os.path.isdir(entry):  # noqa: PTH112 - raises no error
                        files.append(entry.name)
                    elif depth < MAX_DEPTH:
                        queue.append((directory / entry.name, depth + 1))
                    else:
                        seen["cut_short"] = 1
        except OSError:
            seen["unreadable"] += 1
        yield directory, files


def _run_in(directory: Path, files: list[str], seen: Counter[str]) -> RunFiles | None:
    in_profile = _is_run_directory(directory)
    traces: dict[str, list[str]] = {}
    tools: list[str] = []
    capture_files = {name for name in files if name.endswith(_CAPTURE_FILE)}
    for name in files:
        host, kind = _name_parts(name, in_profile=in_profile)
        # PyTorch's profiler uses the same layout with a different file format.
        if kind != UNKNOWN and not host.endswith(".pt"):
            traces.setdefault(host, []).append(name)
        elif _TOOL_FILE.search(name) or (
            in_profile and name not in capture_files and not name.startswith(".")
        ):
            tools.append(name)
        elif "tfevents" in name:
            seen["events file"] += 1
    if not traces and not tools and not capture_files:
        seen["run"] += in_profile
        return None
    found = [_best(directory, host, names) for host, names in sorted(traces.items())]
    if not traces:
        found = [_without_trace(directory / name) for name in sorted(capture_files)]
    name = _directory_name(directory)
    return RunFiles(
        name=name,
        path=directory,
        hosts=tuple(file for file, _ in found),
        tool_files=tuple(sorted(tools)),
        recorded=time_in_name(name) or max((time for _, time in found), default=0.0),
    )


def _best(directory: Path, host: str, names: list[str]) -> tuple[HostFile, float]:
    """Return the most complete file of a host, and its modification time."""
    ranked = [name for suffix in (*_FORMATS, "") for name in names if name.endswith(suffix)]
    status = {name: _size_and_time(directory / name) for name in names}
    chosen = next((name for name in ranked if status[name][0] > 0), ranked[0])
    note = ""
    if chosen != ranked[0]:
        note = (
            f"{printable(ranked[0])} is empty (the profiler writes 0 bytes when a trace is over "
            f"2 GiB); {printable(chosen)} was read instead"
        )
    _, kind = _name_parts(chosen, in_profile=True)
    return _host_file(directory / chosen, host, kind, note), status[chosen][1]


def _without_trace(capture_file: Path) -> tuple[HostFile, float]:
    """Return a host that has only a capture file, and the file's modification time."""
    host = capture_file.name.removesuffix(_CAPTURE_FILE)
    return _host_file(
        capture_file.with_name(f"{host}.xplane.pb"), host, CAPTURE_FILE, NO_TRACE
    ), _size_and_time(capture_file)[1]


def _size_and_time(file: Path) -> tuple[int, float]:
    try:
        status = file.stat()
    except OSError:
        return 0, 0.0
    return status.st_size, status.st_mtime


def _is_run_directory(directory: Path) -> bool:
    parts = directory.parts
    if len(parts) < 3:  # noqa: PLR2004 - plugins/profile/<run>, seen from inside
        parts = Path(os.path.abspath(directory)).parts  # noqa: PTH100 - links are kept as they are
    return parts[-3:-1] == _PROFILES


def _directory_name(directory: Path) -> str:
    name = directory.name
    return name if name not in {"", ".."} else directory.resolve().name or str(directory)


def _name_below(root: Path, directory: Path, *, is_whole: bool) -> str:
    parts = directory.relative_to(root).parts
    if parts[-3:-1] == _PROFILES and not is_whole:
        parts = (*parts[:-3], parts[-1])
    return "/".join(parts) or _directory_name(directory)


# --- Why there is no trace ------------------------------------------------------------------------

_RECORD: Final = "or record a trace with `traceanalyzer capture script.py`"
# Things found instead of a trace, best explanation first, and what to do.
_INSTEAD_OF_TRACES: Final = {
    "run": "without files: the profiler did not finish, or its files were not copied; copy them",
    "events file": "but no profile; copy plugins/profile too, set profile_batch=(10, 20) in the "
    "TensorBoard callback",
}


def _why_no_trace(seen: Counter[str]) -> str:
    for what, words in _INSTEAD_OF_TRACES.items():
        if seen[what]:
            return f"{counted(seen[what], what)} {words}, {_RECORD}"
    where = f" among the first {seen['entries']:,} entries" if seen["cut_short"] else ""
    unread = f", and {counted(seen['unreadable'], 'directory')} could not be read"
    return (
        f"no trace (HOST.xplane.pb, HOST.trace.json.gz, or local.trace){where}"
        f"{unread * bool(seen['unreadable'])}; give the log directory of a run, {_RECORD}"
    )


def _only_tool_data(tool_files: Iterable[str]) -> str:
    tools = sorted({match[1] for name in tool_files if (match := _TOOL_FILE.search(name))})
    kinds = f" ({', '.join(tools)})" if tools else ""
    return (
        f"only data that TensorFlow converted for TensorBoard's tools{kinds}, but no trace; copy "
        "HOST.xplane.pb or HOST.trace.json.gz from the recording machine, or record again"
    )

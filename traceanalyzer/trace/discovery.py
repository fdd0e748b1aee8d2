"""Finds the runs of a profile, and the trace of each host in them, from any path a user may give.

TensorFlow writes `<logdir>/plugins/profile/<run>/HOST.xplane.pb`; Keras up to TF 2.6 puts `train/`
before `plugins/`, and older versions write other files instead or in addition. Any directory with
trace files counts as a run, so a log directory, one above several of them, a run, and a folder of
traces all work. Reads directories only; opens and writes nothing.
"""

from __future__ import annotations

import logging
import os
import re
import stat
from collections import Counter, deque
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from traceanalyzer.errors import TraceFormatError, TraceNotFoundError
from traceanalyzer.format import encodable, printable
from traceanalyzer.trace.absence import (
    CAPTURE_FILE,
    TOOL_FILE,
    Walk,
    missing,
    no_trace,
    only_tool_data,
    reason,
)
from traceanalyzer.trace.sniff import EVENTS_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Formats, as `Trace.format` calls them; whether a file is gzipped is seen when it is opened.
XPLANE: Final = "xplane"
TRACE_JSON: Final = "trace.json"
LOCAL_TRACE: Final = "local.trace"
UNKNOWN: Final = "unknown"  # by the name; the content will show it

# Log directories are a few levels deep and hold thousands of entries. Beyond these the user has
# named a home directory or `/`, and an answer in seconds is worth more than a complete one.
MAX_DEPTH = 12
MAX_ENTRIES = 200_000

_log = logging.getLogger(__name__)

# Best first: an xplane has every event, the others are cut down from it.
_FORMATS: Final = (
    (".xplane.pb", XPLANE),
    (".xplane.pb.gz", XPLANE),
    (".trace.json.gz", TRACE_JSON),
    (".trace.json", TRACE_JSON),
    (".local.trace", LOCAL_TRACE),
)
_INSTEAD: Final = "not a trace; give the run's directory, or its HOST.xplane.pb"
_NO_TRACES: Final = (
    (re.compile("tfevents"), EVENTS_FILE),
    (TOOL_FILE, f"data for one of TensorBoard's tools, {_INSTEAD}"),
    (re.compile(re.escape(CAPTURE_FILE) + "$"), f"a capture file, {_INSTEAD}"),
)
_TIMESTAMP: Final = re.compile(r"[0-9]{4}(?:[_-][0-9]{2}){5}")


@dataclass(frozen=True, kw_only=True)
class HostFile:
    """The trace of one host."""

    host: str  #: from the file's name; bytes that are not UTF-8 are escaped
    path: Path
    format: str  #: `xplane`, `trace.json`, `local.trace`, or `unknown` (only the content shows it)
    note: str = ""  #: for the user, about the choice of this file
    capture_file: Path | None = None  #: beside it


@dataclass(frozen=True, kw_only=True)
class RunFiles:
    """The files of one run."""

    name: str  #: of its directory; after the log directory (`train/2021_...`) if runs share it
    path: Path
    hosts: tuple[HostFile, ...]  #: by name; none if only tool data was kept
    tool_files: tuple[Path, ...] = ()  #: data that TensorFlow converted for TensorBoard's tools
    recorded: float = 0.0  #: seconds since 1970, about


def find_runs(path: str | os.PathLike[str]) -> tuple[RunFiles, ...]:
    """Find the runs at or below a path.

    The newest run comes first, by the time in the name that TensorFlow gives it
    (`2021_02_03_21_48_13`) or else the modification time of its newest trace; runs of the same time
    are in reverse order of name. Runs without a trace come last, and at least one has a trace.

    Args:
        path: A log directory or one above it, `plugins`, `plugins/profile`, a run, or a trace.

    Raises:
        TraceNotFoundError: There is no trace.
        TraceFormatError: The path is a file that is not a trace.
    """
    root = Path(path)
    try:
        mode = root.stat().st_mode
    except FileNotFoundError:
        raise TraceNotFoundError(missing(root)) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        msg = f"{printable(root)}: cannot be read ({reason(error)}); check path and permissions"
        raise TraceNotFoundError(msg) from error
    if stat.S_ISREG(mode):
        return (_single(root),)
    if not stat.S_ISDIR(mode):
        msg = (
            f"{printable(root)}: is a device, a pipe, or a socket; give a trace file or a log "
            "directory"
        )
        raise TraceFormatError(msg)
    walk = Walk()
    found = list(_walk_runs(root, walk))
    if walk.cut_short:
        _log.warning(
            "%s: stopped the search after %d entries; runs further down are not found",
            printable(root),
            walk.entries,
        )
    if not any(run.hosts for run in found):
        raise TraceNotFoundError(no_trace(root, walk, (f for run in found for f in run.tool_files)))
    found.sort(key=lambda run: (bool(run.hosts), run.recorded, str(run.path)), reverse=True)
    return _with_distinct_names(root, found)


def choose_run(runs: Sequence[RunFiles], name: str | None = None) -> RunFiles:
    """Return the newest run that has a trace, or the run of that name.

    Raises:
        TraceNotFoundError: There is no such run, or it has no trace.
    """
    if name is None:
        chosen = next((r for r in runs if r.hosts), None)
        problem = "no run has a trace"
    else:
        exact = [r for r in runs if r.name == name]
        # The directory alone is enough if only one run has it.
        matches = exact or [r for r in runs if r.path.name == name]
        chosen = matches[0] if len(matches) == 1 else None
        problem = (
            f"{len(matches)} runs are named {printable(name)}"
            if matches
            else f"there is no run {printable(name)}"
        )
    if chosen is None:
        names = ", ".join(printable(r.name) for r in runs[:20]) or "none"
        more = f" and {len(runs) - 20} more" if len(runs) > 20 else ""  # noqa: PLR2004 - as above
        msg = f"{problem}; choose one of: {names}{more}"
        raise TraceNotFoundError(msg)
    if not chosen.hosts:
        msg = f"{printable(chosen.name)}: {only_tool_data(chosen.tool_files)}"
        raise TraceNotFoundError(msg)
    return chosen


def time_in_name(run_name: str) -> float | None:
    """Return when a run was recorded, if its name says so, in seconds since 1970.

    TensorFlow writes local time and no zone, so this is right to within half a day.
    """
    if not _TIMESTAMP.fullmatch(run_name):
        return None
    try:
        time = datetime.strptime(re.sub(r"\D", "", run_name), "%Y%m%d%H%M%S")  # noqa: DTZ007 - next
    except ValueError:
        return None
    return time.replace(tzinfo=UTC).timestamp()


def _single(file: Path) -> RunFiles:
    """Return the run that consists of one trace file."""
    host, kind = _name_parts(file.name)
    for pattern, words in _NO_TRACES:
        if pattern.search(file.name):
            msg = f"{printable(file.name)}: {words}"
            raise TraceFormatError(msg)
    path = file.parent
    capture_file = path / f"{host}{CAPTURE_FILE}"
    return RunFiles(
        name=_directory_name(path) if _is_run_directory(path) else host,
        path=path,
        hosts=(
            HostFile(
                host=encodable(host),
                path=file,
                format=kind,
                capture_file=capture_file
                if kind != UNKNOWN and _size_and_time(capture_file)[1]
                else None,
            ),
        ),
    )


def _name_parts(name: str) -> tuple[str, str]:
    """Split a file's name into host and format."""
    if name == LOCAL_TRACE:
        return "local", LOCAL_TRACE
    for suffix, kind in _FORMATS:
        if name.endswith(suffix) and name != suffix:
            return name.removesuffix(suffix), kind
    return name.split(".", 1)[0] or name, UNKNOWN


def _walk_runs(root: Path, walk: Walk) -> Iterator[RunFiles]:
    """Visit directories breadth first, so that near runs are found before the limits."""
    seen: set[tuple[int, int]] = set()
    queue: deque[tuple[Path, int]] = deque([(root, 0)])
    while queue:
        directory, depth = queue.popleft()
        files: list[str] = []
        try:
            # A link to a directory is followed, since log directories are often linked together;
            # a directory is visited once, however many links or loops lead to it.
            status = directory.stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            walk.directories += 1
            with os.scandir(directory) as entries:
                for entry in entries:
                    walk.entries += 1
                    if walk.entries > MAX_ENTRIES:
                        walk.cut_short = True
                        break
                    if not _is_directory(entry):
                        files.append(entry.name)
                    elif depth < MAX_DEPTH:
                        queue.append((directory / entry.name, depth + 1))
                    else:
                        walk.cut_short = True
        except OSError:
            walk.unreadable += 1
        found = _run_in(directory, files, walk)
        if found:
            yield found
        if walk.entries > MAX_ENTRIES:
            return


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _run_in(directory: Path, files: list[str], walk: Walk) -> RunFiles | None:
    """Return the run whose files are in a directory, if any."""
    in_profile = _is_run_directory(directory)
    traces: dict[str, list[str]] = {}
    tools: list[str] = []
    capture_files = {name for name in files if name.endswith(CAPTURE_FILE)}
    for name in files:
        host, kind = _name_parts(name)
        if kind == UNKNOWN and in_profile and name.endswith(".trace"):
            # What TF 2.0 and 2.1 wrote for a remote host.
            host, kind = name.removesuffix(".trace"), LOCAL_TRACE
        # PyTorch's profiler writes into the same layout, in a form of its own.
        if kind != UNKNOWN and not host.endswith(".pt"):
            traces.setdefault(host, []).append(name)
        elif TOOL_FILE.search(name) or (
            in_profile and name not in capture_files and not name.startswith(".")
        ):
            tools.append(name)
        elif "tfevents" in name:
            walk.events_files += 1
            walk.profile_markers += name.endswith(".profile-empty")
    if not traces and not tools:
        walk.capture_files += len(capture_files)
        walk.empty_runs += in_profile and not capture_files
        return None
    hosts: list[HostFile] = []
    modified = 0.0
    for host in sorted(traces):
        file, time = _best(directory, host, traces[host])
        beside = f"{host}{CAPTURE_FILE}"
        hosts.append(
            replace(file, capture_file=directory / beside) if beside in capture_files else file
        )
        modified = max(modified, time)
    name = _directory_name(directory)
    return RunFiles(
        name=name,
        path=directory,
        hosts=tuple(hosts),
        tool_files=tuple(directory / tool for tool in sorted(tools)),
        recorded=time_in_name(name) or modified,
    )


def _best(directory: Path, host: str, names: list[str]) -> tuple[HostFile, float]:
    """Return the most complete file of a host, and its modification time."""
    suffixes = [suffix for suffix, _ in _FORMATS]

    def rank(name: str) -> int:
        return next((i for i, s in enumerate(suffixes) if name.endswith(s)), len(suffixes))

    ranked = sorted(names, key=rank)
    status = {name: _size_and_time(directory / name) for name in ranked}
    chosen = next((name for name in ranked if status[name][0] > 0), ranked[0])
    note = ""
    if chosen != ranked[0]:
        note = (
            f"{printable(ranked[0])} is empty (the profiler writes 0 bytes when a trace is over "
            f"2 GiB); {printable(chosen)} was read instead"
        )
    _, kind = _name_parts(chosen)
    kind = LOCAL_TRACE if kind == UNKNOWN else kind
    file = HostFile(host=encodable(host), path=directory / chosen, format=kind, note=note)
    return file, status[chosen][1]


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
    return parts[-3:-1] == ("plugins", "profile")


def _directory_name(directory: Path) -> str:
    name = directory.name
    return name if name not in {"", ".."} else directory.resolve().name or str(directory)


def _with_distinct_names(root: Path, runs: list[RunFiles]) -> tuple[RunFiles, ...]:
    """Prefix names that several runs share with the log directory, as TensorBoard does."""
    shared = Counter(r.name for r in runs)
    longer = [replace(r, name=_name_below(root, r.path)) if shared[r.name] > 1 else r for r in runs]
    still_shared = Counter(r.name for r in longer)
    return tuple(
        replace(r, name=r.path.relative_to(root).as_posix()) if still_shared[r.name] > 1 else r
        for r in longer
    )


def _name_below(root: Path, directory: Path) -> str:
    parts = directory.relative_to(root).parts
    if parts[-3:-1] == ("plugins", "profile"):
        parts = (*parts[:-3], parts[-1])
    return "/".join(parts) or _directory_name(directory)

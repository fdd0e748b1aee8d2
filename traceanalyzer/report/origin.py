"""How a report came to be: the command to type for the same, and when and how it was recorded."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from traceanalyzer.capture_file.command_words import shown_command
from traceanalyzer.units import NS_PER_S

if TYPE_CHECKING:
    from traceanalyzer.run import Host, Run


def command(run: Run) -> str:
    """Return the command that captured a run, or the one that reports it where none is recorded.

    It names no folder of its author, and no secrets.
    """
    for host in run.hosts:
        if host.capture_file is not None and host.capture_file.command:
            return shown_command(host.capture_file.command)
    return shown_command(["traceanalyzer", "report", run.path_name])


def recorded_at(run: Run) -> str | None:
    """Return when the recording began, in UTC; None where no capture has written it down."""
    starts = [at for host in run.hosts if (at := _start_ns(host)) is not None]
    if not starts:
        return None
    try:
        began = datetime.fromtimestamp(min(starts) // NS_PER_S, UTC)
    except (OverflowError, OSError, ValueError):  # a year that no calendar has
        return None
    return f"{began:%Y-%m-%d %H:%M:%S}"


def host_tracer_level(run: Run) -> int | None:
    """Return the host tracer level that was in force; None where hosts differ, or nothing tells."""
    facts = [host.tables.facts for host in run.hosts]
    levels = {f.host_level if f.host_level_source != "assumed" else None for f in facts}
    return levels.pop() if len(levels) == 1 else None


def _start_ns(host: Host) -> int | None:
    if host.capture_file is None or host.session is None:
        return None
    start_ns = host.capture_file.sessions[host.session].start_ns
    return start_ns if start_ns > 0 else None

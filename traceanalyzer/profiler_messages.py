"""Interprets the errors and warnings that the profiler itself wrote into a trace."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from traceanalyzer.data_files import toml
from traceanalyzer.format import printable
from traceanalyzer.run import Host, Run, once_per_run

_MESSAGES: Final = toml("profiler_messages.toml")["message"]
# Written by the GPU tracer on a machine without a GPU.
_EXPECTED: Final = re.compile(r"No GPU detected", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class ProfilerMessage:
    """An error or a warning of the profiler, and what to do about it."""

    host: str
    text: str  #: shortened
    means: str = ""  #: "" if unknown
    fix: str = ""  #: "" if unknown
    no_gpu_work: bool = False  #: whether the trace lacks the work of the host's GPUs because of it


@once_per_run
def profiler_messages(run: Run) -> tuple[ProfilerMessage, ...]:
    """Return what the profiler reported: lost GPU work first, then what is known, then the rest."""
    found = [message for host in run.hosts for message in _of_host(host)]
    return tuple(sorted(found, key=lambda each: (not each.no_gpu_work, not each.means)))


def gpu_work_lost(run: Run) -> ProfilerMessage | None:
    """Return the message that says why the trace lacks the work of a GPU, or None."""
    return next((each for each in profiler_messages(run) if each.no_gpu_work), None)


def _of_host(host: Host) -> Iterator[ProfilerMessage]:
    has_gpu_work = any(host.tables.facts.accelerators.values())
    for text in dict.fromkeys((*host.trace.errors, *host.trace.warnings)):
        if _EXPECTED.search(text):
            continue
        fitting = (m for m in _MESSAGES if re.search(m["pattern"], text, re.IGNORECASE))
        known: dict[str, Any] = next(
            (m for m in fitting if not (has_gpu_work and m.get("no_gpu_work"))), {}
        )
        yield ProfilerMessage(
            host=host.name,
            text=printable(text.removeprefix(f"{host.name}: ").strip()),
            means=known.get("means", ""),
            fix=known.get("fix", ""),
            no_gpu_work=known.get("no_gpu_work", False),
        )

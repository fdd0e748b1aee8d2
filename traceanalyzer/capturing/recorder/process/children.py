"""Processes that the program starts: their work is not recorded, and the report says so."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..journal import Journal

# multiprocessing imports these when the first process is started so.
_STARTERS = ("multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver")
_WORTH_A_WORD_S = 1.0  # CPU time; tools that libraries call at their import take less


def note_fork(journal: Journal) -> None:
    """Note, once, that the program was forked."""
    journal.note(
        "child_processes",
        "info",
        "the program started other processes of itself: what they did is not recorded",
    )


def note_other_starts(journal: Journal) -> None:
    """Note the same of other ways to start processes, and how much of the work they did."""
    if any(name in sys.modules for name in _STARTERS):
        note_fork(journal)
    theirs, own = (now - then for now, then in zip(_cpu_s(), _AT_FIRST))
    if theirs < _WORTH_A_WORD_S:
        return
    journal.note(
        "work_of_child_processes",
        "warning" if theirs >= own / 2 else "info",
        f"not recorded: processes that the program started, which used {theirs:,.1f} s of CPU time "
        f"(the program itself {own:,.1f} s); to record their work, do it in the program's own "
        "process",
    )


def _cpu_s() -> tuple[float, float]:
    """Return the CPU time of all processes that have ended, and of this one."""
    try:
        import resource
    except ImportError:
        return 0.0, 0.0
    both = map(resource.getrusage, (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF))
    theirs, own = (used.ru_utime + used.ru_stime for used in both)
    return theirs, own


_AT_FIRST = _cpu_s()

"""Processes that the program starts of itself: what they do is not recorded, and that is told."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .journal import Journal

__all__ = ["note_fork", "note_other_starts"]

# multiprocessing imports these when the first process is started so.
_STARTERS = ("multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver")


def note_fork(journal: Journal) -> None:
    """Note, once, that the program was forked."""
    journal.note(
        "child_processes",
        "info",
        "the program started other processes of itself: what they did is not recorded",
    )


def note_other_starts(journal: Journal) -> None:
    """Note the same of the ways without a fork of this process, if it has used one."""
    if any(name in sys.modules for name in _STARTERS):
        note_fork(journal)

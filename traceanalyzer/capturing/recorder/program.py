"""The start of a recorded program, before its first line has run."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Optional

from .facts.gpu_choices import watch_variable
from .journal import Journal
from .process.children import note_fork, note_other_starts
from .process.ending import watch_ending
from .process.importing import watch_import
from .settings import read_settings

if TYPE_CHECKING:
    from .attach import Attachment
    from .settings import Settings


def prepare(path: str) -> None:
    """Have the program recorded from where it imports TensorFlow to its end."""
    settings = read_settings(path)
    journal = Journal(settings.journal)
    journal.write("started", pid=os.getpid())
    program = _Program(settings, journal)
    try:
        watch_ending(program.finish)
        watch_variable(journal)
        os.register_at_fork(after_in_parent=functools.partial(note_fork, journal))
        watch_import("tensorflow", program.before_tensorflow, program.after_tensorflow)
    except Exception as error:
        journal.failed("the program", error)


class _Program:
    """Loads the rest of the recorder when TensorFlow is imported, and not before."""

    def __init__(self, settings: Settings, journal: Journal) -> None:
        self._settings = settings
        self._journal = journal
        self._attachment: Optional[Attachment] = None

    def before_tensorflow(self) -> None:
        try:
            from .attach import Attachment

            self._attachment = Attachment(self._settings, self._journal)
            self._attachment.before_tensorflow()
        except Exception as error:
            self._journal.failed("the program", error)

    def after_tensorflow(self) -> None:
        if self._attachment is not None:
            self._attachment.after_tensorflow()

    def finish(self, reason: str) -> None:
        if self._attachment is not None:
            self._attachment.finish(reason)
            return
        note_other_starts(self._journal)
        self._journal.write("finished", reason=reason)

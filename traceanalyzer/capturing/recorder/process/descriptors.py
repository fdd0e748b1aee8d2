"""Descriptors of ours in the program's process.

A program may close any descriptor, and open a file of its own in its place. So ours have high
numbers, which are rarely reached again, and are looked at before they are used: what we write or
lead elsewhere is never the program's.
"""

from __future__ import annotations

import fcntl
import os

_HIGH = 200  # out of the way of the numbers that a program expects to be given, too


class OwnDescriptor:
    """A descriptor of ours, recognised by the file that it leads to."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._file = _file_of(number)

    @classmethod
    def duplicate(cls, original: int) -> OwnDescriptor:
        """Make a duplicate that is closed on exec; the original stays open."""
        try:
            return cls(fcntl.fcntl(original, fcntl.F_DUPFD_CLOEXEC, _HIGH))
        except OSError:  # perhaps the limit is lower than that
            return cls(os.dup(original))

    def is_ours(self) -> bool:
        """Return whether it still leads to what it was made for."""
        return self._file is not None and _file_of(self.number) == self._file

    def point_to(self, other: int) -> None:
        """Lead elsewhere, unless the number is the program's by now."""
        if self.is_ours():
            os.dup2(other, self.number, inheritable=False)
            self._file = _file_of(self.number)


def _file_of(number: int) -> tuple[int, int] | None:
    try:
        found = os.fstat(number)
    except OSError:
        return None
    return found.st_dev, found.st_ino

"""The text of the program's own lines: read when it has ended, so that it costs it nothing.

Only lines that the evidence names are read, never whole files, and only of files that are as they
were when the program began: a line of a file that was edited since would be another line.
"""

from __future__ import annotations

import linecache
import stat
from dataclasses import dataclass, field, replace
from importlib.util import decode_source
from pathlib import Path
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.document import Note
from traceanalyzer.capture_file.statements import FileStatements
from traceanalyzer.format import counted, listed, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from traceanalyzer.capture_file.document import Frame, Statement

MAX_CHARACTERS: Final = 200  # of a line
MAX_LINES: Final = 5_000
_MAX_TEXT: Final = 500_000  # characters of all lines
_MAX_FILE_BYTES: Final = 5_000_000  # nobody writes larger files by hand
_MAX_READ_BYTES: Final = 50_000_000  # of all files: they are read while the user waits
_CUT: Final = "…"
_NAMED: Final = 3  # files that a note names


@dataclass(frozen=True, kw_only=True)
class SourceLines:
    """Reads the lines of a program that has run."""

    #: When the program began, seconds since 1970: a file that changed later is not read.
    since_s: float
    #: Whether the program runs in this process; then cells of a notebook, which are no files, are
    #: known to `linecache`.
    of_this_process: bool = False

    def add(
        self, frames: Sequence[Frame]
    ) -> tuple[tuple[Frame, ...], tuple[Statement, ...], tuple[Note, ...]]:
        """Return frames with the text of the user's lines, statements, and notes on the rest."""
        reading = _Reading(self)
        known: dict[tuple[str, int], str | None] = {}
        found = []
        for frame in frames:
            if frame.is_user:
                place = (frame.file, frame.line)
                if place not in known:
                    known[place] = reading.text(*place)
                found.append(replace(frame, text=known[place]))
            else:
                found.append(frame)
        return tuple(found), tuple(reading.statements.values()), tuple(reading.notes())


@dataclass
class _Reading:
    """One reading of lines, as far as its limits go."""

    of: SourceLines
    files: dict[str, list[str] | None] = field(default_factory=dict)
    lines_left: int = MAX_LINES
    text_left: int = _MAX_TEXT
    bytes_left: int = _MAX_READ_BYTES
    changed: list[str] = field(default_factory=list)
    too_large: set[str] = field(default_factory=set)
    left_out: int = 0
    statements: dict[tuple[str, int], Statement] = field(default_factory=dict)
    parsed: dict[str, FileStatements] = field(default_factory=dict)

    def text(self, file: str, line: int) -> str | None:
        if file not in self.files:
            lines = self._cell(file) or self._lines_of(file) if self.lines_left else None
            self.files[file] = lines
        lines = self.files[file]
        if file in self.too_large or not self.lines_left:
            self.left_out += 1
            return None
        if lines is None or not 1 <= line <= len(lines):
            return None
        text = lines[line - 1].strip()
        if len(text) > MAX_CHARACTERS:
            text = text[: MAX_CHARACTERS - 1] + _CUT
        if len(text) > self.text_left:
            self.left_out += 1
            return None
        self.lines_left -= 1
        self.text_left -= len(text)
        self._add_statements(file, line, lines)
        return text or None

    def _add_statements(self, file: str, line: int, lines: Sequence[str]) -> None:
        found: list[Statement] = []
        if file not in self.parsed:
            self.parsed[file] = FileStatements(file, lines)
            found += self.parsed[file].of_strategies()
        for statement in (*found, *self.parsed[file].at(line)):
            size = sum(map(len, statement.text))
            if (file, statement.line) not in self.statements and size <= self.text_left:
                self.text_left -= size
                self.statements[file, statement.line] = statement

    def notes(self) -> Iterator[Note]:
        if self.changed:
            names = [printable(name) for name in _distinct(Path(f).name for f in self.changed)]
            more = len(names) - _NAMED
            shown = [*names[:_NAMED], *([counted(more, "more file")] if more > 0 else [])]
            yield Note(
                id="source_changed",
                severity="info",
                message=f"the text of lines of {listed(shown)} is not shown: "
                "changed or written after the program had begun",
            )
        if self.left_out:
            yield Note(
                id="source_lines_left_out",
                severity="info",
                message=f"the text of {counted(self.left_out, 'line')} of the program is not "
                "shown: there is too much of it",
            )

    def _lines_of(self, file: str) -> list[str] | None:
        """Return the lines of a file, None where they cannot be had or may be others by now."""
        path = Path(file)
        try:
            if not path.is_absolute() or not path.exists():
                return None
            status, link = path.stat(), path.lstat()
            if not stat.S_ISREG(status.st_mode):
                return None
            if status.st_size > min(_MAX_FILE_BYTES, self.bytes_left):
                self.too_large.add(file)
                return None
            # Tools that set the time of modification back leave that of the last change; a link
            # that was made to lead elsewhere has times of its own.
            times = (status.st_mtime, status.st_ctime, link.st_mtime, link.st_ctime)
            if max(times) > self.of.since_s:
                self.changed.append(file)
                return None
            self.bytes_left -= status.st_size
            return decode_source(path.read_bytes()).split("\n")
        except (OSError, SyntaxError, ValueError):  # no encoding of Python's; a name with a null
            return None

    def _cell(self, file: str) -> list[str] | None:
        """Return the lines of a notebook's cell, which are in `linecache`."""
        entry = linecache.cache.get(file) if self.of.of_this_process else None
        # One without a time never goes stale: it was not read from a file.
        if entry is None or len(entry) == 1 or entry[1] is not None:
            return None
        return [str(line) for line in entry[2]]


def _distinct(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))

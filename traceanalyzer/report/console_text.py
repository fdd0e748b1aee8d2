"""Text for the terminal: inert, visible, and in characters that the console has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from traceanalyzer.format import duration, share, size
from traceanalyzer.report import text

if TYPE_CHECKING:
    from rich.console import Console

    from traceanalyzer.model import Cell

QUIET: Final = "dim"
_LONG_NAME: Final = 56
# For consoles that cannot show them; anything else comes out as its code point.
_PLAIN: Final = str.maketrans({"µ": "u", "…": "~", "·": "-", "⟨": "<", "⟩": ">", "\xa0": " "})


def heading(words: ConsoleText, title: str) -> Text:
    """Return a heading with an empty line above it."""
    return Text("\n") + words(title, "bold underline")


class ConsoleText:
    """Make text for one console: inert, visible, and in characters that the console has."""

    def __init__(self, console: Console) -> None:
        """Take the console."""
        self._is_unicode = console.encoding.lower().startswith("utf")

    def __call__(self, words: object, style: str = "") -> Text:
        """Return a text that holds no markup."""
        said = text.visible(str(words))
        if not self._is_unicode:
            said = said.translate(_PLAIN).encode("ascii", "backslashreplace").decode("ascii")
        return Text(said, style=style)

    def name(self, name: str, length: int = _LONG_NAME) -> Text:
        """Return a name of the trace, its middle cut where it is long."""
        return self(text.cut(name, length))

    def op(self, name: str, place: str | None) -> Text:
        """Return an op's name, and below it the line that asked for it where that is known."""
        shown = self.name(name)
        return (
            shown
            if place is None
            else shown + Text("\n") + self(text.cut(place, _LONG_NAME), QUIET)
        )

    def prose(self, prose: str, style: str = "") -> Text:
        """Return prose on one line, for the console to wrap."""
        return self(text.cut_long(text.one_line(prose)), style)

    def time(self, us: Cell) -> Text:
        """Return a time, or that it is unknown."""
        if isinstance(us, int | float):
            return self(duration(us))
        return self(text.UNKNOWN, QUIET)

    def size(self, size_bytes: Cell) -> Text:
        """Return a size, or that it is unknown."""
        if isinstance(size_bytes, int | float):
            return self(size(size_bytes))
        return self(text.UNKNOWN, QUIET)

    def count(self, number: Cell) -> Text:
        """Return a number, or that it is unknown."""
        if isinstance(number, int):
            return self(f"{number:,}")
        return self(text.UNKNOWN, QUIET)

    def share(self, part: float | None, why: str | None) -> Text:
        """Return a share, or that it is unknown and why."""
        if part is not None:
            return self(share(part))
        return self(f"{text.UNKNOWN} ({why})" if why else text.UNKNOWN, QUIET)

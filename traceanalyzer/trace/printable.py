"""Puts names that others chose, such as those of files, on one printable line."""

from __future__ import annotations

_LONGEST = 300  # a path is shown whole; a hostile name does not fill the terminal


def printable(text: object) -> str:
    """Return `text` with control characters, line breaks and undecodable bytes escaped.

    A name may hold a line break or terminal commands, and on Linux any byte at all; an error is
    one line, and printing it must not fail.
    """
    line = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(text))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST // 2]}...{line[-_LONGEST // 2 :]}"


def encodable(name: str) -> str:
    """Return a name with the bytes that are no UTF-8 escaped: tables and documents are UTF-8."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")

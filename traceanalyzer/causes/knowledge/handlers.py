"""Which lines an `except` guards with what it does: to tell whether a line is part of a handler."""

from __future__ import annotations

import ast

from traceanalyzer.evidence.program_files import parsed

__all__ = ["handler_lines"]


def handler_lines(file: str, line: int) -> tuple[int, int] | None:
    """Return the first and the last line of a handler's body.

    The file is read, never run. What was recorded must still be there: otherwise nothing is said.

    Args:
        file: A Python file, absolute.
        line: The line of the `except`.

    Returns:
        None where the file cannot be read, or has no handler at that line.
    """
    tree = parsed(file)
    if tree is None:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.lineno == line:
            last = node.body[-1]
            return node.body[0].lineno, last.end_lineno or last.lineno
    return None

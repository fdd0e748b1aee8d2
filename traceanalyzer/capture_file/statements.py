"""The program's statements at recorded lines, so that a report can show how to edit them.

Only statements that the evidence names are kept, and those that define the constants which they
use: `KIND = tf.int32` at the top of a file.
"""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.document import Statement
from traceanalyzer.capture_file.syntax import own, statements

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_MOST_LINES: Final = 30  # of a statement
_BOUND: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class FileStatements:
    """The statements of one file."""

    def __init__(self, file: str, lines: Sequence[str]) -> None:
        self._file = file
        self._lines = [line.rstrip("\r\n") for line in lines]
        try:
            self._tree = ast.parse("\n".join(self._lines))
        except (SyntaxError, ValueError, RecursionError):  # a notebook's cell with a shell command
            self._tree = ast.Module([], [])
        self._constants = self._found_constants()

    def at(self, line: int) -> Iterator[Statement]:
        """Walk the statement at a line and the definitions of the constants that it uses."""
        around = list(statements(self._tree, line))
        if not around or isinstance(around[-1], _BOUND):
            return
        yield from self._kept(around[-1])
        kept: set[str] = set()
        left = self._names_in(around[-1])
        while left:
            name = left.pop()
            if name not in kept:
                kept.add(name)
                yield from self._kept(self._constants[name])
                left += self._names_in(self._constants[name])

    def of_strategies(self) -> Iterator[Statement]:
        """Walk the statements that create a `tf.distribute` strategy."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.stmt) and any(map(_makes_strategy, own(node))):
                yield from self._kept(node)

    def _names_in(self, statement: ast.AST) -> list[str]:
        """Return the constants that a statement uses."""
        names = {node.id for node in own(statement) if isinstance(node, ast.Name)}
        return sorted(names & self._constants.keys())

    def _kept(self, statement: ast.stmt | ast.ExceptHandler) -> Iterator[Statement]:
        first = statement.lineno
        body = getattr(statement, "body", None)
        last = max(first, body[0].lineno - 1) if body else statement.end_lineno or first
        lines = self._lines[first - 1 : last]
        while body and lines[-1].lstrip()[:1] in {"", "#"}:
            lines.pop()
        if len(lines) <= _MOST_LINES:
            yield Statement(file=self._file, line=first, text=tuple(lines))

    def _found_constants(self) -> dict[str, ast.Assign]:
        """Return what defines each name of the module that only one statement binds."""
        times_bound = Counter(name for node in ast.walk(self._tree) for name in _bound_by(node))
        return {
            each.targets[0].id: each
            for each in self._tree.body
            if isinstance(each, ast.Assign)
            and isinstance(each.targets[0], ast.Name)
            and times_bound[each.targets[0].id] == 1
        }


def _makes_strategy(node: ast.AST) -> bool:
    named = node.func if isinstance(node, ast.Call) else None
    return isinstance(named, ast.Attribute) and named.attr.endswith("Strategy")


def _bound_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, _BOUND):
        yield node.name
    elif isinstance(node, ast.alias):
        yield node.asname or node.name

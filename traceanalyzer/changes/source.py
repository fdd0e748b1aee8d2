"""The program's recorded statements, with edits to parts of them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from traceanalyzer.model.changes import Edit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traceanalyzer.capture_file.document import CaptureFile, Statement


class Sources:
    """The recorded statements of a run."""

    def __init__(self, capture_files: Iterable[CaptureFile]) -> None:
        self._statements: dict[str, dict[int, Statement]] = {}
        for capture_file in capture_files:
            for statement in capture_file.statements:
                of_file = self._statements.setdefault(statement.file, {})
                for line in range(statement.line, statement.line + len(statement.text)):
                    # A line of two statements, or of one within another, belongs to the shorter.
                    known = of_file.get(line)
                    if known is None or len(statement.text) < len(known.text):
                        of_file[line] = statement

    def at(self, file: str, line: int) -> Source | None:
        """Return the statement at a line, or None if it is unknown or cannot be parsed."""
        statement = self._statements.get(file, {}).get(line)
        source = None if statement is None else Source(statement)
        return source if source is not None and source.nodes else None

    def of_strategies(self) -> list[tuple[Source, ast.Call]]:
        """Return the statements that create a `tf.distribute` strategy, with the call in each."""
        found = []
        for of_file in self._statements.values():
            for statement in dict.fromkeys(of_file.values()):
                source = Source(statement)
                calls = [n for n in source.nodes if isinstance(n, ast.Call)]
                found += [(source, n) for n in calls if name_of(n).endswith("Strategy")]
        return found

    def constant(self, file: str, name: str) -> Source | None:
        """Return the statement that defines a constant of a file: `KIND = tf.int32`."""
        for statement in dict.fromkeys(self._statements.get(file, {}).values()):
            if statement.text[0].startswith((f"{name} =", f"{name}=")):
                return Source(statement)
        return None


@dataclass(frozen=True)
class Source:
    """A parsed statement."""

    statement: Statement

    @cached_property
    def _lines(self) -> list[str]:
        """The lines after one that an indented statement can be in."""
        return ["if 1:" if self._indent else "", *self.statement.text]

    @cached_property
    def _indent(self) -> str:
        first = self.statement.text[0]
        return first[: len(first) - len(first.lstrip())]

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of its syntax tree; none if it cannot be parsed, such as an `elif`."""
        for body in ([], [f"{self._indent} pass"]):  # of a compound statement
            try:
                tree = ast.parse("\n".join([*self._lines, *body]))
            except (SyntaxError, ValueError, RecursionError):
                continue
            return tuple(node for node in ast.walk(tree) if getattr(node, "lineno", 0) > 1)
        return ()

    def calls(self, *names: str) -> list[ast.Call]:
        """Return the calls of functions with one of these names: `device`, for `tf.device`."""
        return [
            node for node in self.nodes if isinstance(node, ast.Call) and name_of(node) in names
        ]

    def text(self, node: ast.AST) -> str:
        """Return the text of a node."""
        return ast.get_source_segment("\n".join(self._lines), node) or ""

    def replaced(self, parts: Iterable[tuple[ast.AST, str]]) -> Edit:
        """Return the edit that replaces nodes; none may contain another."""
        return self.rewritten((), parts)

    def rewritten(
        self,
        inserted: Iterable[tuple[tuple[int, int], str]],
        replaced: Iterable[tuple[ast.AST, str]] = (),
    ) -> Edit:
        """Return the edit that inserts texts, in order if at one position, and replaces nodes."""
        spans = [(*place, *place, text) for place, text in inserted]
        spans += [(*start_of(node), *end_of(node), new) for node, new in replaced]
        return self._spliced(spans)

    def appended(self, call: ast.Call, argument: str) -> Edit:
        """Return the edit that adds an argument at the end of a call."""
        given = [*call.args, *call.keywords]
        if not given:
            line, column = end_of(call)
            return self._spliced([(line, column - 1, line, column - 1, argument)])
        end = max(map(end_of, given))
        return self._spliced([(*end, *end, f", {argument}")])

    def removed(self) -> Edit:
        """Return the edit that removes the statement or replaces it with `pass`."""
        return self._edit([f"{self._indent}pass"] if self._indent else [])

    def _spliced(self, spans: Iterable[tuple[int, int, int, int, str]]) -> Edit:
        lines = [line.encode() for line in self._lines]
        for first, start, last, end, new in sorted(spans, key=lambda span: span[:2])[::-1]:
            begin, rest = lines[first - 1][:start], lines[last - 1][end:]
            lines[first - 1 : last] = [begin + new.encode() + rest]
        size = len(self.statement.text) + len(lines) - len(self._lines)
        return self._edit([line.decode() for line in lines[1 : 1 + size]])

    def _edit(self, new: list[str]) -> Edit:
        """Return the edit of the lines that differ."""
        old = list(self.statement.text)
        line = self.statement.line
        while old and new and old[0] == new[0] and len(old) > 1:
            old, new, line = old[1:], new[1:], line + 1
        while len(old) > 1 and new and old[-1] == new[-1]:
            old, new = old[:-1], new[:-1]
        return Edit(file=self.statement.file, line=line, old=tuple(old), new=tuple(new))


def name_of(node: ast.AST) -> str:
    """Return the last part of the name of a function, or of a called function."""
    if isinstance(node, ast.Call):
        return name_of(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def start_of(node: ast.AST) -> tuple[int, int]:
    """Return the line and column where a node begins."""
    return node.lineno, node.col_offset  # type: ignore[attr-defined]


def end_of(node: ast.AST) -> tuple[int, int]:
    """Return the line and column after the end of a node."""
    return node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]


def root_of(node: ast.AST) -> str:
    """Return the first part of a dotted name: `tf`, of `tf.random.normal`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def argument(call: ast.Call, position: int | None, *names: str) -> ast.expr | None:
    """Return an argument of a call, by its name or its position."""
    for keyword in call.keywords:
        if keyword.arg in names:
            return keyword.value
    if position is None or any(isinstance(arg, ast.Starred) for arg in call.args):
        return None
    return call.args[position] if position < len(call.args) else None

"""The program's recorded statements, with edits to parts of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

from traceanalyzer.capture_file.document import CaptureFile, Statement
from traceanalyzer.capture_file.source_lines import CALLING_PYTHON, python_function
from traceanalyzer.model.changes import Edit, Place

#: The names that programs import TensorFlow as.
TENSORFLOW: Final = frozenset({"tf", "tensorflow"})
_Position: TypeAlias = tuple[int, int]  # line and column
Span: TypeAlias = tuple[_Position, _Position, str]
"""The start and end of a text, and its replacement."""


class Sources:
    """The recorded statements of a run."""

    def __init__(self, capture_files: Iterable[CaptureFile]) -> None:
        self._sources: dict[str, dict[int, ParsedStatement]] = {}
        for capture_file in capture_files:
            for statement in capture_file.statements:
                source, size = ParsedStatement(statement), len(statement.text)
                of_file = self._sources.setdefault(statement.file, {})
                for line in range(statement.line, statement.line + size):
                    # A line of two statements, or of one within another, belongs to the shorter.
                    known = of_file.setdefault(line, source)
                    if size < len(known.statement.text):
                        of_file[line] = source

    def at(self, file: str, line: int) -> ParsedStatement | None:
        """Return the statement at a line, or None if it is unknown or cannot be parsed."""
        source = self._sources.get(file, {}).get(line)
        return source if source is not None and source.nodes else None

    def line(self, file: str, line: int) -> str:
        """Return the text of a line, or "" if it was not recorded."""
        source = self._sources.get(file, {}).get(line)
        return "" if source is None else source.statement.text[line - source.statement.line]

    def call(self, file: str, line: int, *names: str) -> tuple[ParsedStatement, ast.Call] | None:
        """Return the statement at a line and its only call of these functions, or None."""
        source = self.at(file, line)
        calls = [] if source is None else source.calls(*names)
        return (source, calls[0]) if source is not None and len(calls) == 1 else None

    def tensorflow(self, file: str) -> str:
        """Return the name that a file uses for TensorFlow, or "" if no recorded line uses one."""
        used = (
            node.value.id
            for source in dict.fromkeys(self._sources.get(file, {}).values())
            for node in source.nodes
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        )
        return next((name for name in used if name in TENSORFLOW), "")

    def of_python_function(self, place: Place) -> Place:
        """Return the line that defines the function that a line's `tf.py_function` calls.

        Return the line itself if no definition was recorded.
        """
        found = self.call(*place, *CALLING_PYTHON)
        name = python_function(found[1]) if found is not None else ""
        for source in dict.fromkeys(self._sources.get(place[0], {}).values()) if name else ():
            if re.match(rf"\s*(async )?def {name}\(", source.statement.text[0]):
                return (place[0], source.statement.line)
        return place

    def of_strategy(self) -> Place | None:
        """Return the line that creates the program's `tf.distribute` strategy.

        If several lines create one, return the first that names the CPU, or None.
        """
        found = [
            ((source.statement.file, source.statement.line), "cpu" in source.text(node).lower())
            for of_file in self._sources.values()
            for source in dict.fromkeys(of_file.values())
            for node in source.nodes
            if isinstance(node, ast.Call) and name_of(node).endswith("Strategy")
        ]
        named = [place for place, names_cpu in found if names_cpu or len(found) == 1]
        return min(named, default=None)

    def constant(self, file: str, node: ast.AST | None) -> tuple[ParsedStatement, ast.expr] | None:
        """Return the statement that defines a name (`KIND = tf.int32`), and its value."""
        if not isinstance(node, ast.Name):
            return None
        start = (f"{node.id} =", f"{node.id}=")
        for source in dict.fromkeys(self._sources.get(file, {}).values()):
            if source.statement.text[0].startswith(start):
                values = [each.value for each in source.nodes if isinstance(each, ast.Assign)]
                return (source, values[0]) if values else None
        return None


@dataclass(frozen=True)
class ParsedStatement:
    """A parsed statement."""

    statement: Statement

    @cached_property
    def _indent(self) -> str:
        first = self.statement.text[0]
        return first[: len(first) - len(first.lstrip())]

    @cached_property
    def _lines(self) -> list[str]:
        """The statement's lines, after `if 1:` if they are indented, so that they can be parsed."""
        return ["if 1:" if self._indent else "", *self.statement.text]

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the statement's syntax tree; none if it cannot be parsed, like an `elif`."""
        for body in ([], [f"{self._indent} pass"]):  # of a compound statement
            try:
                tree = ast.parse("\n".join([*self._lines, *body]))
            except (SyntaxError, ValueError, RecursionError):
                continue
            return tuple(node for node in ast.walk(tree) if getattr(node, "lineno", 0) > 1)
        return ()

    def calls(self, *names: str) -> list[ast.Call]:
        """Return the calls of functions with one of these names (`device` for `tf.device`)."""
        return [n for n in self.nodes if isinstance(n, ast.Call) and name_of(n) in names]

    def text(self, node: ast.AST) -> str:
        """Return the source text of a node."""
        return ast.get_source_segment("\n".join(self._lines), node) or ""

    def edited(self, *spans: Span) -> Edit:
        """Return the edit that replaces some spans; insertions at one position stay in order."""
        lines = [line.encode() for line in self._lines]
        for (first, start), (last, end), new in sorted(spans, key=lambda span: span[0])[::-1]:
            begin, rest = lines[first - 1][:start], lines[last - 1][end:]
            lines[first - 1 : last] = [begin + new.encode() + rest]
        size = len(self.statement.text) + len(lines) - len(self._lines)
        return self._edit([line.decode() for line in lines[1 : 1 + size]])

    def appended(self, call: ast.Call, argument: str) -> Edit:
        """Return the edit that adds an argument at the end of a call."""
        return self.edited(self.at_end(call, argument))

    def at_end(self, call: ast.Call, argument: str) -> Span:
        """Return the span that adds an argument at the end of a call."""
        given = [*call.args, *call.keywords]
        if given:
            end = max(each[1] for each in map(_bounds, given))
            return (end, end, f", {argument}")
        line, column = _bounds(call)[1]
        return ((line, column - 1), (line, column - 1), argument)

    def removed(self) -> Edit:
        """Return the edit that removes the statement or replaces it with `pass`."""
        return self._edit([f"{self._indent}pass"] if self._indent else [])

    def _edit(self, new: list[str]) -> Edit:
        old = list(self.statement.text)
        line = self.statement.line
        while old and new and old[0] == new[0] and len(old) > 1:
            old, new, line = old[1:], new[1:], line + 1
        while len(old) > 1 and new and old[-1] == new[-1]:
            old, new = old[:-1], new[:-1]
        return Edit(file=self.statement.file, line=line, old=tuple(old), new=tuple(new))


def _bounds(node: ast.AST) -> tuple[_Position, _Position]:
    return (
        (node.lineno, node.col_offset),  # type: ignore[attr-defined]
        (node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
    )


def over(node: ast.AST, text: str) -> Span:
    """Return the span that replaces a node with text."""
    return (*_bounds(node), text)


def around(node: ast.AST, before: str, after: str) -> Iterator[Span]:
    """Yield the spans that insert text before and after a node."""
    start, end = _bounds(node)
    yield start, start, before
    yield end, end, after


def name_of(node: ast.AST) -> str:
    """Return the last part of a function's dotted name, given the function or a call of it."""
    if isinstance(node, ast.Call):
        return name_of(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def root_of(node: ast.AST) -> str:
    """Return the first part of a dotted name, such as `tf` for `tf.random.normal`."""
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

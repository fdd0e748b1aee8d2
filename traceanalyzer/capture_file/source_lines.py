"""Reads source lines of a program after it has ended.

This module never keeps whole files, only the text of recorded lines, statements for which a report
may suggest edits, and the constants that they use (`KIND = tf.int32` at the top of a file). It
skips files that changed after the program began, because lines may have moved.
"""

from __future__ import annotations

import ast
import linecache
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.util import decode_source
from pathlib import Path
from typing import Final

from traceanalyzer.capture_file.document import CaptureNote, Frame, Statement
from traceanalyzer.format import counted, listed, printable

_MOST_CHARACTERS: Final = 200  # of a line
_MAX_TEXT: Final = 500_000  # characters of all lines
_MAX_FILE_BYTES: Final = 5_000_000
_MAX_READ_BYTES: Final = 50_000_000  # of all files
_CUT: Final = "…"
_NAMED: Final = 3  # files that a note names
_MOST_LINES: Final = 30  # of a statement
#: Functions of TensorFlow whose ops call a Python function.
CALLING_PYTHON: Final = frozenset({"numpy_function", "py_func", "py_function"})


class SourceLines:
    """Reads the source lines of a program once, with limits on the bytes read and text kept."""

    def __init__(self, since_s: float, *, of_this_process: bool = False) -> None:
        """Read a program that began at `since_s`, in seconds since 1970.

        If it runs in this process, `linecache` contains the cells of a notebook.
        """
        self._since_s, self._of_this_process = since_s, of_this_process
        self._files: dict[str, FileStatements | None] = {}
        self._text_left, self._bytes_left = _MAX_TEXT, _MAX_READ_BYTES
        self._changed: dict[str, None] = {}  # names of files
        self._statements: dict[tuple[str, int], Statement] = {}

    def add(
        self, frames: Sequence[Frame]
    ) -> tuple[tuple[Frame, ...], tuple[Statement, ...], tuple[CaptureNote, ...]]:
        """Return the frames with the text of user lines, the recorded statements, and the notes."""
        places = dict.fromkeys((frame.file, frame.line) for frame in frames if frame.is_user)
        texts = {place: self._text(*place) for place in places}
        found = (replace(f, text=texts[f.file, f.line]) if f.is_user else f for f in frames)
        return tuple(found), tuple(self._statements.values()), tuple(self._notes())

    def _text(self, file: str, line: int) -> str | None:
        """Return the text of a line, and keep its statement; None if unknown or over the limits."""
        if file not in self._files:
            lines = self._cell(file) or self._lines_of(file)
            source = self._files[file] = None if lines is None else FileStatements(file, lines)
            self._keep(() if source is None else source.of_strategies())
        source = self._files[file]
        if source is None or not 1 <= line <= len(source.lines):
            return None
        text = source.lines[line - 1].strip()
        if len(text) > _MOST_CHARACTERS:
            text = text[: _MOST_CHARACTERS - 1] + _CUT
        if len(text) > self._text_left:
            return None
        self._text_left -= len(text)
        self._keep(source.at(line))
        return text or None

    def _keep(self, found: Iterable[Statement]) -> None:
        for statement in found:
            size = sum(map(len, statement.text))
            place = statement.file, statement.line
            if place not in self._statements and size <= self._text_left:
                self._text_left -= size
                self._statements[place] = statement

    def _notes(self) -> Iterator[CaptureNote]:
        if self._changed:
            names = [printable(name) for name in self._changed]
            more = len(names) - _NAMED
            shown = [*names[:_NAMED], *([counted(more, "more file")] if more > 0 else [])]
            message = (
                f"source lines of {listed(shown)} are not shown, because the files changed "
                "after the program started"
            )
            yield CaptureNote(id="source_changed", severity="info", message=message)

    def _lines_of(self, file: str) -> list[str] | None:
        """Return the lines of a file; None if it cannot be read, or may have changed."""
        path = Path(file)
        try:
            if not path.is_absolute() or not path.exists():
                return None
            status, link = path.stat(), path.lstat()
            is_too_large = status.st_size > min(_MAX_FILE_BYTES, self._bytes_left)
            if is_too_large or not stat.S_ISREG(status.st_mode):
                return None
            # Tools may reset the modification time, but not the time of the last change (ctime).
            # A link has its own times.
            times = (status.st_mtime, status.st_ctime, link.st_mtime, link.st_ctime)
            if max(times) > self._since_s:
                self._changed[path.name] = None
                return None
            self._bytes_left -= status.st_size
            return decode_source(path.read_bytes()).split("\n")
        except (OSError, SyntaxError, ValueError):  # no encoding of Python's; a name with a null
            return None

    def _cell(self, file: str) -> list[str] | None:
        entry = linecache.cache.get(file) if self._of_this_process else None
        # Only an entry without a time was not read from a file.
        if entry is None or len(entry) == 1 or entry[1] is not None:
            return None
        return [str(line) for line in entry[2]]


class FileStatements:
    """The statements of one file."""

    def __init__(self, file: str, lines: Sequence[str]) -> None:
        self._file = file
        self.lines = [line.rstrip("\r\n") for line in lines]
        try:
            self._tree = ast.parse("\n".join(self.lines))
        except (SyntaxError, ValueError, RecursionError):  # a notebook's cell with a shell command
            self._tree = ast.Module([], [])
        self._constants = constants(self._tree)

    def at(self, line: int) -> Iterator[Statement]:
        """Yield the statement at a line and the definitions of the constants that it uses."""
        around = list(statements(self._tree, line))
        if around and not isinstance(around[-1], _BOUND):
            yield from self._kept(around[-1])
            used = {node.id for node in own(around[-1]) if isinstance(node, ast.Name)}
            for name in sorted(used & self._constants.keys()):
                yield from self._kept(self._constants[name])
            for name in sorted(_called_by_ops(around[-1])):
                yield from self._definition(name)

    def _definition(self, name: str) -> Iterator[Statement]:
        """Yield the header of a function that the file defines once."""
        functions = ast.FunctionDef | ast.AsyncFunctionDef
        found = [n for n in ast.walk(self._tree) if isinstance(n, functions) and n.name == name]
        if len(found) == 1:
            yield from self._kept(found[0])

    def of_strategies(self) -> Iterator[Statement]:
        """Yield the statements that create a `tf.distribute` strategy."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.stmt) and any(map(_makes_strategy, own(node))):
                yield from self._kept(node)

    def _kept(self, statement: ast.stmt | ast.ExceptHandler) -> Iterator[Statement]:
        first = statement.lineno
        body = getattr(statement, "body", None)
        last = max(first, body[0].lineno - 1) if body else statement.end_lineno or first
        lines = self.lines[first - 1 : last]
        while body and lines[-1].lstrip()[:1] in {"", "#"}:
            lines.pop()
        if len(lines) <= _MOST_LINES:
            yield Statement(file=self._file, line=first, text=tuple(lines))


def _called_by_ops(statement: ast.AST) -> Iterator[str]:
    """Yield the names of the Python functions that a statement has ops call."""
    for node in own(statement):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr in CALLING_PYTHON:
            yield from filter(None, [python_function(node)])  # type: ignore[arg-type]


def python_function(call: ast.Call) -> str:
    """Return the name of the function that `tf.py_function` or a like function is given, or ""."""
    given = [*call.args[:1], *(each.value for each in call.keywords if each.arg == "func")]
    function = given[0] if given else None
    if isinstance(function, ast.Attribute):  # a method
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _makes_strategy(node: ast.AST) -> bool:
    named = node.func if isinstance(node, ast.Call) else None
    return isinstance(named, ast.Attribute) and named.attr.endswith("Strategy")


# --- Syntax --------------------------------------------------------------------------------------

_BOUND: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def syntax_of(file: str) -> ast.Module | None:
    """Return the syntax tree of a file or notebook cell; None if it cannot be read."""
    try:
        if file.startswith("<"):
            source = "".join(linecache.getlines(file))
            return ast.parse(source) if source else None
        return _parsed(file, Path(file).stat().st_mtime_ns)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None


@lru_cache(maxsize=32)  # many lines of few files are looked at
def _parsed(file: str, _changed_ns: int) -> ast.Module:
    return ast.parse(decode_source(Path(file).read_bytes()))


def statements(node: ast.AST, line: int) -> Iterator[ast.stmt | ast.ExceptHandler]:
    """Yield the statements that contain a line, outermost first."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler) and (
            child.lineno <= line <= (child.end_lineno or child.lineno)
        ):
            yield child
            yield from statements(child, line)


def own(statement: ast.AST) -> Iterator[ast.AST]:
    """Yield a statement's nodes, without nested statements such as the body of a `with`."""
    yield statement
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from own(child)


def constants(tree: ast.Module) -> dict[str, ast.Assign]:
    """Map each module-level name that the file binds only once to its assignment."""
    times_bound = Counter(name for node in ast.walk(tree) for name in _bound_by(node))
    return {
        target.id: each
        for each in tree.body
        if isinstance(each, ast.Assign)
        for target in each.targets
        if isinstance(target, ast.Name) and times_bound[target.id] == 1
    }


def _bound_by(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, _BOUND):
        yield node.name
    elif isinstance(node, ast.alias):
        yield node.asname or node.name

"""The syntax of the program's source, around lines that a capture recorded."""

from __future__ import annotations

import ast
import linecache
from collections import Counter
from functools import lru_cache
from importlib.util import decode_source
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
# Nodes that decide whether, or with which value, their content runs.
DECIDES: Final = (
    *(ast.If, ast.IfExp, ast.Try, ast.TryStar, ast.ExceptHandler, ast.Match, ast.BoolOp),
    *(ast.For, ast.AsyncFor, ast.While, ast.comprehension, ast.Lambda),
)


def syntax_of(file: str) -> ast.Module | None:
    """Return the syntax of a file or a notebook's cell, None where it cannot be read."""
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
    """Walk the statements around a line, the outermost first."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler) and (
            child.lineno <= line <= (child.end_lineno or child.lineno)
        ):
            yield child
            yield from statements(child, line)


def own(statement: ast.AST) -> Iterator[ast.AST]:
    """Walk a statement without nested ones: for a `with`, its context managers."""
    yield statement
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from own(child)


def called(node: ast.AST) -> str:
    """Return the last part of the name that a node calls, "" for another node."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name
    return ""


def decides(node: ast.AST, *, but: Sequence[type[ast.AST]] = ()) -> bool:
    """Return whether a node makes its content conditional, unlike `if __name__ == "__main__"`."""
    is_main = isinstance(node, ast.If) and "__name__" in ast.dump(node.test)
    return isinstance(node, DECIDES) and not isinstance(node, tuple(but)) and not is_main


def is_text(node: ast.AST, tree: ast.Module, is_it: Callable[[object], bool]) -> bool:
    """Return whether an expression is a constant, or a name that the file gives one constant."""
    if isinstance(node, ast.Name):
        given = constants(tree).get(node.id)
        if given is None or any(isinstance(n, ast.alias) and n.name == "*" for n in ast.walk(tree)):
            return False
        node = given.value
    return isinstance(node, ast.Constant) and is_it(node.value)


def constants(tree: ast.Module) -> dict[str, ast.Assign]:
    """Return the definition of each module-level name that only one statement binds."""
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
    elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.alias):
        yield node.asname or node.name

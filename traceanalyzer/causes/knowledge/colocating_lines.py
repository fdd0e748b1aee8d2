"""Which lines of a program request a colocation, by its source: it is not recorded."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from traceanalyzer.capture_file.syntax import syntax_of

if TYPE_CHECKING:
    from collections.abc import Iterator

# A `with` around the line; the argument `colocate_gradients_with_ops`; `tf.gradients` itself.
Form: TypeAlias = Literal["scope", "argument", "gradients"]

# `gradients` (python/ops/gradients_impl.py) makes its ops within a name scope of that name.
_OF_GRADIENTS: Final = re.compile(r"(?:^|/)gradients(?:_\d+)?/")
_SCOPE: Final = "colocate_with"
_ARGUMENT: Final = "colocate_gradients_with_ops"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ColocationRequest:
    """A line that requests a colocation, and how."""

    file: str
    line: int
    form: Form


@dataclass(frozen=True, slots=True)
class _Span:
    """The lines within which ops are colocated, and the line that requests it."""

    first: int
    last: int
    line: int
    form: Form


def colocation_request(file: str | None, line: int | None, node: str) -> ColocationRequest | None:
    """Return the line that requests the colocation of the op that a line makes.

    The op's name shows whether it belongs to a gradient.

    Returns:
        None if the source shows no request: TensorFlow's own code or a caller of the line makes it,
        or the file no longer exists.
    """
    if file is None or line is None:
        return None
    is_gradient = _OF_GRADIENTS.search(node) is not None
    around = [
        span
        for span in _spans(file)
        if span.first <= line <= span.last and (span.form == "scope") is not is_gradient
    ]
    if not around:
        return None
    innermost = min(around, key=lambda span: span.last - span.first)
    return ColocationRequest(file=file, line=innermost.line, form=innermost.form)


@lru_cache(maxsize=16)
def _spans(file: str) -> tuple[_Span, ...]:
    tree = syntax_of(file) if PurePath(file).is_absolute() else None
    return () if tree is None else tuple(_walk(tree))


def _walk(tree: ast.AST) -> Iterator[_Span]:
    named = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _mentions(node.value, set())
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    tensorflow = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "tensorflow"
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.With):
            if any(_mentions(item.context_expr, named) for item in node.items):
                last = node.end_lineno or node.lineno
                yield _Span(node.body[0].lineno, last, node.lineno, "scope")
        elif isinstance(node, ast.Call):
            form = _form(node, tensorflow)
            if form is not None:
                yield _Span(node.lineno, node.end_lineno or node.lineno, node.lineno, form)


def _mentions(value: ast.AST, named: set[str]) -> bool:
    """Return whether an expression uses `colocate_with`, or a name for it."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr == _SCOPE)
        or (isinstance(node, ast.Name) and (node.id == _SCOPE or node.id in named))
        for node in ast.walk(value)
    )


def _form(call: ast.Call, tensorflow: set[str]) -> Form | None:
    for keyword in call.keywords:
        if keyword.arg == _ARGUMENT:
            value = keyword.value
            return None if isinstance(value, ast.Constant) and not value.value else "argument"
    # `gradients_v2` has no such argument, and always colocates; that of `tf.compat.v1` does not.
    called = ast.unparse(call.func)
    return "gradients" if called in {f"{name}.gradients" for name in tensorflow} else None

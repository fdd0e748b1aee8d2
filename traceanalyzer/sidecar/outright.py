"""Whether a line that hides GPUs does so on every machine, as far as the source shows.

A line that stands under an `if` may depend on the GPUs there are; so may a list that another line
made. Only what is spelt out on the line, with nothing to decide around it, is sure.
"""

from __future__ import annotations

import ast
from importlib.util import decode_source
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.sidecar.document import Frame

__all__ = ["hides_outright"]

_CALL: Final = "set_visible_devices"
_LISTS: Final = frozenset({"list_physical_devices", "list_logical_devices"})
_DECIDES: Final = (ast.If, ast.IfExp, ast.Try, ast.While, ast.Match, ast.BoolOp, ast.ListComp)


def hides_outright(frames: Sequence[Frame], value: str) -> bool:
    """Return whether the innermost line hides every GPU whatever the machine has.

    Args:
        frames: The lines that were running, innermost first.
        value: What the line set, of an environment variable.
    """
    found = [_around(frame) for frame in frames]
    if not found or any(each is None for each in found):
        return False
    around = [nodes for nodes in found if nodes is not None]
    if any(_may_return_before(nodes) for nodes in around):
        return False
    deciding = [node for nodes in around for node in (*nodes, *ast.walk(nodes[-1]))]
    if any(isinstance(node, _DECIDES) and not _is_main(node) for node in deciding):
        return False
    return any(_is_spelt(node, value) for node in ast.walk(around[0][-1]))


def _around(frame: Frame) -> list[ast.AST] | None:
    """Return the statements around a line, outermost first; None where there are none."""
    try:
        tree = ast.parse(decode_source(Path(frame.file).read_bytes()))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
    return list(_statements(tree, frame.line)) or None


def _statements(node: ast.AST, line: int) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler) and (
            child.lineno <= line <= (child.end_lineno or child.lineno)
        ):
            yield child
            yield from _statements(child, line)


def _may_return_before(nodes: Sequence[ast.AST]) -> bool:
    """Return whether a function around a statement may return ahead of it: a condition, too."""
    functions = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    first = getattr(nodes[-1], "lineno", 0)
    return any(
        isinstance(node, ast.Return) and node.lineno < first
        for function in functions[-1:]
        for node in ast.walk(function)
    )


def _is_main(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.dump(node.test)


def _is_spelt(node: ast.AST, value: str) -> bool:
    match node:
        case (
            ast.Assign(value=ast.Constant(value=text))
            | ast.keyword(arg="CUDA_VISIBLE_DEVICES", value=ast.Constant(value=text))
        ):
            return text == value
        case ast.Dict(values=values):
            return any(isinstance(each, ast.Constant) and each.value == value for each in values)
        case ast.Call(func=ast.Attribute(attr="setdefault"), args=[_, ast.Constant(value=text)]):
            return text == value
        case ast.Call(func=ast.Attribute(attr=attr), args=args, keywords=keywords):
            named = [keyword.value for keyword in keywords if keyword.arg == "devices"]
            return attr == _CALL and any(map(_has_no_gpu, [*args[:1], *named]))
    return False


def _has_no_gpu(node: ast.AST) -> bool:
    match node:
        case ast.List(elts=[]) | ast.Tuple(elts=[]):
            return True
        case ast.Call(func=ast.Attribute(attr=attr), args=[ast.Constant(value="CPU")]):
            return attr in _LISTS
    return False

"""Whether a line hides the GPUs on every machine, as far as its source shows.

A line under an `if` may depend on the GPUs there are, and so may a computed value. Only a constant
is sure, without a condition around it and without another line in its file that undoes it.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final, NamedTuple

from traceanalyzer.capture_file.document import NO_SOURCE
from traceanalyzer.capture_file.syntax import FUNCTIONS, decides, is_text, statements, syntax_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.capture_file.document import Frame

OUTRIGHT: Final = "outright"  # whatever the machine has
UNLESS_SET: Final = "unless_set"  # if the variable is not set already
CONDITION: Final = "condition"
COMPUTED: Final = "computed"
_CALL: Final = "set_visible_devices"
_VARIABLE: Final = "CUDA_VISIBLE_DEVICES"
_LISTS: Final = frozenset({"list_physical_devices", "list_logical_devices"})
_EXITS: Final = frozenset({"exit", "_exit", "quit", "abort"})


class _Line(NamedTuple):
    """A line that was running: its file's tree, and the statements around it, outermost first."""

    tree: ast.Module
    around: Sequence[ast.AST]


def manner_of(frames: Sequence[Frame], value: str) -> str:
    """Return how the innermost line hides every GPU: a manner of `VisibilityChoice`.

    Args:
        frames: The lines that were running, innermost first.
        value: What the line set, of an environment variable.
    """
    lines = [line for frame in frames if (line := _read(frame)) is not None]
    if not lines or len(lines) < len(frames):
        return NO_SOURCE
    tree, around = lines[0]
    inner = list(ast.walk(around[-1]))
    is_default = any(_is_default(node, tree, value) for node in inner)
    if not is_default and not any(_is_spelt(node, tree, value) for node in inner):
        return COMPUTED
    if any(map(_decides, lines)) or any(_may_leave_before(line) for line in lines):
        return CONDITION
    may_choose = _is_call if any(map(_is_call, inner)) else _may_set
    trees = {frame.file: line.tree for frame, line in zip(frames, lines, strict=True)}
    times = sum(may_choose(node) for each in trees.values() for node in ast.walk(each))
    if times > 1:  # one that did not run here may run there
        return CONDITION
    return UNLESS_SET if is_default else OUTRIGHT


def _read(frame: Frame) -> _Line | None:
    tree = syntax_of(frame.file)
    around = [] if tree is None else list(statements(tree, frame.line))
    return _Line(tree, around) if tree is not None and around else None


def _decides(line: _Line) -> bool:
    *outer, last = line.around
    return any(decides(node) for node in (*outer, *ast.walk(last)))


def _may_leave_before(line: _Line) -> bool:
    """Return whether what runs ahead of a line may end its function, or the program."""
    functions = [node for node in line.around if isinstance(node, FUNCTIONS)]
    first = getattr(line.around[-1], "lineno", 0)
    return any(
        getattr(node, "lineno", first) < first
        and (isinstance(node, ast.Return | ast.Raise) or _is_exit(node))
        for node in _within(functions[-1] if functions else line.tree)
    )


def _within(node: ast.AST) -> Iterator[ast.AST]:
    """Walk the nodes of a function or module, but not of the functions that it defines."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (*FUNCTIONS, ast.Lambda)):
            yield child
            yield from _within(child)


def _is_exit(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name in _EXITS
    return False


def _is_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == _CALL


def _may_set(node: ast.AST) -> bool:
    """Return whether an expression may set the variable, or unset it."""
    match node:
        case ast.Subscript(slice=ast.Constant(value="CUDA_VISIBLE_DEVICES"), ctx=context):
            return not isinstance(context, ast.Load)
        case ast.Call(func=ast.Attribute(attr="setdefault" | "pop" | "putenv" | "unsetenv")):
            return any(_is_constant(each, _VARIABLE) for each in node.args)
        case ast.Dict(keys=keys):
            return any(each is not None and _is_constant(each, _VARIABLE) for each in keys)
        case ast.keyword(arg=name):
            return name == _VARIABLE
    return False


def _is_default(node: ast.AST, tree: ast.Module, value: str) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="setdefault"), args=[key, default]):
            return _is_constant(key, _VARIABLE) and _is_value(default, tree, value)
    return False


def _is_spelt(node: ast.AST, tree: ast.Module, value: str) -> bool:
    match node:
        case ast.Assign(targets=[ast.Subscript(slice=key)], value=given):
            return _is_constant(key, _VARIABLE) and _is_value(given, tree, value)
        case ast.Call(func=ast.Attribute(attr="update"), args=args, keywords=keywords):
            pairs: list[tuple[object, ast.expr]] = [(k.arg, k.value) for k in keywords]
            for each in args:
                if isinstance(each, ast.Dict):
                    names = [k.value if isinstance(k, ast.Constant) else None for k in each.keys]
                    pairs += zip(names, each.values, strict=True)
            return any(k == _VARIABLE and _is_value(v, tree, value) for k, v in pairs)
        case ast.Call(func=ast.Attribute(attr=attr), args=args, keywords=keywords):
            named = [keyword.value for keyword in keywords if keyword.arg == "devices"]
            return attr == _CALL and any(map(_has_no_gpu, [*args[:1], *named]))
    return False


def _is_constant(node: ast.AST, value: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == value


def _is_value(node: ast.AST, tree: ast.Module, value: str) -> bool:
    return is_text(node, tree, lambda text: text == value)


def _has_no_gpu(node: ast.AST) -> bool:
    match node:
        case ast.List(elts=[]) | ast.Tuple(elts=[]):
            return True
        case ast.Call(func=ast.Attribute(attr=attr), args=[ast.Constant(value="CPU")]):
            return attr in _LISTS
    return False

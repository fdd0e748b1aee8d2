"""Edits of the program's own lines, where its recorded text shows how to make them."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Final

from traceanalyzer.changes.source import argument, name_of

if TYPE_CHECKING:
    from traceanalyzer.changes.source import Source, Sources
    from traceanalyzer.model.changes import Edit, Place

_CPU: Final = re.compile(r"\bcpu(:\d+)?", re.IGNORECASE)
_GPU: Final = "/GPU:0"


def device_edit(sources: Sources, file: str, line: int, *, soft: bool = True) -> Edit | None:
    """Return the edit with which a `tf.device` scope requests the GPU instead of the CPU.

    Without soft placement, where an op that has no GPU kernel would fail, it requests no device.
    """
    source = sources.at(file, line)
    calls = [] if source is None else source.calls("device")
    if source is None or len(calls) != 1:
        return None
    given = argument(calls[0], 0, "device_name", "device", "name_or_function")
    if isinstance(given, ast.Name):
        defined = sources.constant(file, given.id)
        for node in () if defined is None else defined.nodes:
            if defined is not None and isinstance(node, ast.Assign):
                source, given = defined, node.value
    if given is None or not _names_cpu(sources, file, given):
        return None
    return source.replaced([(given, _on_gpu(source, given, soft=soft))])


def strategy_edit(sources: Sources) -> tuple[Place | None, Edit | None]:
    """Return the line that creates the program's strategy, and the edit that gives it the GPU.

    Nothing if the program creates several; no edit if the line names no CPU.
    """
    made = sources.of_strategies()
    if len(made) != 1:
        return None, None
    ((source, call),) = made
    file = source.statement.file
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    named = [each for each in given if _names_cpu(sources, file, each)]
    place = (file, source.statement.line)
    if len(named) != 1:
        return place, None
    return place, source.replaced([(named[0], _on_gpu(source, named[0], soft=True))])


def _names_cpu(sources: Sources, file: str, node: ast.AST) -> bool:
    """Return whether an expression can evaluate to the name of a CPU."""
    if isinstance(node, ast.IfExp):
        return any(_names_cpu(sources, file, each) for each in (node.body, node.orelse))
    if isinstance(node, ast.Name):
        defined = sources.constant(file, node.id)
        nodes = () if defined is None else defined.nodes
        values = [each.value for each in nodes if isinstance(each, ast.Assign)]
        return any(_names_cpu(sources, file, value) for value in values)
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and _CPU.search(node.value) is not None
    )


def _on_gpu(source: Source, node: ast.AST, *, soft: bool) -> str:
    if not soft:
        return "None"
    if isinstance(node, ast.Constant):
        return _CPU.sub(lambda m: "GPU:0" if m[0].isupper() else "gpu:0", source.text(node))
    return f'"{_GPU}"'


def unhiding_edit(sources: Sources, file: str, line: int) -> Edit | None:
    """Return the edit that removes a line which hides the GPUs."""
    source = sources.at(file, line)
    if source is None:
        return None
    (first, *_) = source.nodes
    assigns = isinstance(first, ast.Assign) and isinstance(first.targets[0], ast.Subscript)
    is_call = isinstance(first, ast.Expr) and name_of(first.value) in {
        *("set_visible_devices", "setdefault", "putenv"),
    }
    return source.removed() if assigns or is_call else None

"""What a program may choose by the GPUs that it finds, as far as its source shows.

Most programs ask which GPUs there are only to print them, or to turn on memory growth. Others
choose a device, a dtype or a branch by the answer, and behave differently on a machine with a GPU.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.syntax import (
    FUNCTIONS,
    decides,
    is_text,
    own,
    statements,
    syntax_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from traceanalyzer.capture_file.document import Frame

# What else a program learns of GPUs from: modules, and parts of texts.
_MODULES: Final = frozenset({"GPUtil", "gpustat", "nvidia_smi", "py3nvml", "pynvml"})
_TEXTS: Final = ("nvidia-smi", "/proc/driver/nvidia", "/dev/nvidia")

# Calls with an answer that leave the program as it is.
_HARMLESS: Final = frozenset(
    {
        *{"set_memory_growth", "get_memory_growth", "get_device_details", "set_visible_devices"},
        *{"set_virtual_device_configuration", "set_logical_device_configuration"},
        *{"VirtualDeviceConfiguration", "LogicalDeviceConfiguration"},
        *{"list_physical_devices", "list_logical_devices", "list_local_devices"},
        *{"get_visible_devices", "is_gpu_available", "gpu_device_name", "is_built_with_cuda"},
        *{"is_available", "device_count", "get_device_name"},  # of `torch.cuda`
        *{"print", "format", "join", "info", "debug", "warning", "warn"},
        *{"len", "str", "bool", "list", "enumerate"},
    }
)
_CHANGES: Final = (
    *(*FUNCTIONS, ast.ClassDef, ast.Lambda, ast.With, ast.AsyncWith, ast.NamedExpr),
    *(ast.Return, ast.Yield, ast.YieldFrom, ast.Delete),
    *(ast.Import, ast.ImportFrom, ast.Break, ast.Continue),
)
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
_WITH: Final = (ast.With, ast.AsyncWith)


def may_choose(file: str, line: int, *, is_script: bool) -> bool:
    """Return whether a program may go by the answer to a question which GPUs there are.

    Args:
        is_script: Whether no other file can import what this one keeps of the answer.
    """
    tree = syntax_of(file)
    if tree is None:
        return True
    around = list(statements(tree, line))
    asking = [s for s in around if any(getattr(node, "lineno", 0) == line for node in own(s))]
    seen: set[str] = set()
    return not asking or any(_matters(tree, each, seen, is_script=is_script) for each in asking)


def questions_without_tensorflow(file: str) -> Iterator[int]:
    """Walk the lines of a file that learn of GPUs in a way that the recorder does not see."""
    tree = syntax_of(file)
    for node in () if tree is None else ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if any(part in text for part in _TEXTS):
                yield node.lineno
            case ast.Import(names=names) if any(n.name.split(".")[0] in _MODULES for n in names):
                yield node.lineno
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in _MODULES:
                yield node.lineno
            case ast.Attribute(value=ast.Name(id="torch"), attr="cuda"):
                yield node.lineno


def _matters(
    tree: ast.Module, statement: ast.stmt | ast.ExceptHandler, seen: set[str], *, is_script: bool
) -> bool:
    """Return whether a statement, or one that uses what it assigns, does what matters."""
    scope: ast.AST = tree
    judged: ast.AST = statement
    for each in statements(tree, statement.lineno):
        if isinstance(each, FUNCTIONS):
            scope, judged = each, statement
        elif isinstance(each, ast.Try | ast.TryStar):
            judged = each  # it fails otherwise where there is a GPU
        if each is statement:
            break
    nodes = list(_without_raised(judged))
    names = {n.id for node in nodes for n in _targets(node)} - seen
    is_kept = bool(names) and (not is_script if scope is tree else _has_globals(scope))
    if is_kept or any(map(_does_more, nodes)):
        return True
    seen |= names
    users = [s for s in ast.walk(scope) if isinstance(s, ast.stmt) and _uses(s, names)]
    return any(_matters(tree, user, seen, is_script=is_script) for user in users)


def _has_globals(function: ast.AST) -> bool:
    return any(isinstance(node, ast.Global | ast.Nonlocal) for node in ast.walk(function))


def _without_raised(node: ast.AST) -> Iterator[ast.AST]:
    """Walk the nodes of a statement, but not the errors that it raises: these end the program."""
    yield node
    if not isinstance(node, ast.Raise):
        for child in ast.iter_child_nodes(node):
            yield from _without_raised(child)


def _does_more(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name not in _HARMLESS
        case ast.Attribute(ctx=context) | ast.Subscript(ctx=context):
            return isinstance(context, ast.Store)
    return isinstance(node, (ast.Call, *_CHANGES))


def _targets(node: ast.AST) -> Iterator[ast.Name]:
    given: Sequence[ast.AST] = ()
    match node:
        case ast.Assign(targets=targets):
            given = targets
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            given = (target,)
    for each in given:
        yield from (n for n in ast.walk(each) if isinstance(n, ast.Name))


def _uses(statement: ast.stmt, names: Iterable[str]) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load)
        for node in own(statement)
    )


def may_choose_device(frame: Frame) -> bool:
    """Return whether the line that enters a scope for the CPU may ask for another device elsewhere.

    Not where it names the CPU itself, and no condition is around it in its file.
    """
    tree = syntax_of(frame.file)
    if tree is None:
        return True
    around = list(statements(tree, frame.line))
    if not around or any(decides(node, but=_LOOPS) for node in around):
        return True
    # In `with tf.device(...): f()`, the innermost statement of the line is the call of f.
    entering = (s for s in around if isinstance(s, _WITH) and s.lineno == frame.line)
    entered = list(own(next(entering, around[-1])))
    devices = [device for node in entered for device in _devices(node)]
    is_spelt_out = all(is_text(each, tree, _is_name) for each in devices)
    names_cpu = any(is_text(each, tree, _is_name_of_cpu) for each in devices)
    return any(map(decides, entered[1:])) or not (is_spelt_out and names_cpu)


def _devices(node: ast.AST) -> Sequence[ast.expr]:
    """Return what a call of `tf.device` or `keras.device` is given."""
    if not isinstance(node, ast.Call):
        return ()
    name = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
    return [*node.args[:1], *(k.value for k in node.keywords)] if name == "device" else ()


def _is_name(text: object) -> bool:
    return text is None or isinstance(text, str)


def _is_name_of_cpu(text: object) -> bool:
    return isinstance(text, str) and "cpu" in text.lower()

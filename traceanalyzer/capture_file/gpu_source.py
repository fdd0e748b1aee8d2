"""Analyzes how a program's source handles GPUs.

Whether a line hides the GPUs on every machine; whether the answer to a GPU query may change what
the program does; whether a line that requests the CPU may request another device elsewhere.
"""

from __future__ import annotations

import ast
from functools import partial
from operator import eq
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.document import NO_SOURCE
from traceanalyzer.capture_file.source_lines import (
    FUNCTIONS,
    called,
    decides,
    is_text,
    own,
    statements,
    syntax_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from traceanalyzer.capture_file.document import Frame

# --- Lines that hide the GPUs ---------------------------------------------------------------------
#
# A line under an `if` may depend on the available GPUs, and so may a computed value. Only a
# constant is certain, if there is no condition around it and no other line in its file undoes it.

# How a line came to hide the GPUs; `NO_SOURCE` is another.
OUTRIGHT: Final = "outright"  # whatever the machine has
UNLESS_SET: Final = "unless_set"  # if the variable is not set already
CONDITION: Final = "condition"
COMPUTED: Final = "computed"
VARIABLE: Final = "CUDA_VISIBLE_DEVICES"
_CALL: Final = "set_visible_devices"
_DEFAULT: Final = "setdefault"
_LISTS: Final = frozenset({"list_physical_devices", "list_logical_devices"})
_EXITS: Final = frozenset({"exit", "_exit", "quit", "abort"})


def manner_of(frames: Sequence[Frame], value: str) -> str:
    """Return how the innermost line hides every GPU: a manner of `VisibilityChoice`.

    Args:
        frames: The lines that were running, innermost first.
        value: What the line set, of an environment variable.
    """
    trees = {frame.file: syntax_of(frame.file) for frame in frames}
    lines = [
        (tree, around)
        for frame in frames
        if (tree := trees[frame.file]) and (around := list(statements(tree, frame.line)))
    ]
    if not lines or len(lines) < len(frames):
        return NO_SOURCE
    tree, around = lines[0]
    inner = list(ast.walk(around[-1]))
    given = [each for node in inner for each in _values(node)]
    if not any(_is_spelt(each, tree, value) for each in given):
        return COMPUTED
    if any(_may_not_run(*line) for line in lines):
        return CONDITION
    may_choose_too = _is_call if any(map(_is_call, inner)) else _may_set
    nodes = (node for each in trees.values() if each is not None for node in ast.walk(each))
    if sum(map(may_choose_too, nodes)) > 1:  # one that did not run here may run elsewhere
        return CONDITION
    return UNLESS_SET if any(called(node) == _DEFAULT for node in inner) else OUTRIGHT


def _may_not_run(tree: ast.Module, around: Sequence[ast.stmt | ast.ExceptHandler]) -> bool:
    """Return whether a line is conditional, or its function may return before it."""
    *outer, last = around
    function = next((node for node in reversed(around) if isinstance(node, FUNCTIONS)), tree)
    return any(decides(node) for node in (*outer, *ast.walk(last))) or any(
        getattr(node, "lineno", last.lineno) < last.lineno
        and (isinstance(node, ast.Return | ast.Raise) or called(node) in _EXITS)
        for node in _within(function)
    )


def _within(node: ast.AST) -> Iterator[ast.AST]:
    """Walk the nodes of a function or module, but not of the functions that it defines."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (*FUNCTIONS, ast.Lambda)):
            yield child
            yield from _within(child)


def _is_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == _CALL


def _may_set(node: ast.AST) -> bool:
    """Return whether an expression may set the variable, or unset it."""
    match node:
        case ast.Subscript(slice=key, ctx=context):
            return _names_variable(key) and not isinstance(context, ast.Load)
        case ast.Call(func=ast.Attribute(attr="setdefault" | "pop" | "putenv" | "unsetenv")):
            return any(map(_names_variable, node.args))
        case ast.Dict(keys=keys):
            return any(map(_names_variable, keys))
        case ast.keyword(arg=name):
            return name == VARIABLE
    return False


def _values(node: ast.AST) -> list[ast.expr]:
    """Return the values that a node gives to the variable, or the devices it makes visible."""
    match node:
        case ast.Assign(targets=[target], value=value) if _may_set(target):
            return [value]
        case ast.Call(args=[_, default]) if called(node) == _DEFAULT and _may_set(node):
            return [default]
        case ast.Call(args=args, keywords=keywords) if called(node) == _CALL:
            return [*args[:1], *(k.value for k in keywords if k.arg == "devices")]
        case ast.Call(args=args, keywords=keywords) if called(node) == "update":
            dicts = [each for each in args if isinstance(each, ast.Dict)]
            pairs = [pair for each in dicts for pair in zip(each.keys, each.values, strict=True)]
            given = [value for key, value in pairs if _names_variable(key)]
            return given + [k.value for k in keywords if k.arg == VARIABLE]
    return []


def _is_spelt(node: ast.expr, tree: ast.Module, value: str) -> bool:
    is_empty = isinstance(node, ast.List | ast.Tuple) and not node.elts
    return is_empty or lists_cpus(node) or is_text(node, tree, partial(eq, value))


def _names_variable(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value == VARIABLE


def lists_cpus(node: ast.AST) -> bool:
    """Return whether a node lists the CPUs that there are."""
    match node:
        case ast.Call(args=[ast.Constant(value="CPU")]):
            return called(node) in _LISTS
    return False


# --- GPU queries ----------------------------------------------------------------------------------

# Other sources from which a program learns of GPUs: modules, and parts of texts.
_MODULES: Final = frozenset({"GPUtil", "gpustat", "nvidia_smi", "py3nvml", "pynvml"})
_TEXTS: Final = ("nvidia-smi", "/proc/driver/nvidia", "/dev/nvidia")

# Calls that return an answer without changing the program.
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


def may_choose(file: str, line: int, *, is_script: bool) -> bool:
    """Return whether a program's behavior may depend on the answer to a GPU query.

    Args:
        is_script: Whether no other file can import the names in which this one stores the answer.
    """
    tree = syntax_of(file)
    if tree is None:
        return True
    around = list(statements(tree, line))
    asking = [s for s in around if any(getattr(node, "lineno", 0) == line for node in own(s))]
    seen: set[str] = set()
    return not asking or any(_matters(tree, each, seen, is_script=is_script) for each in asking)


def questions_without_tensorflow(file: str) -> Iterator[int]:
    """Walk the lines of a file that query GPUs in a way that the recorder does not see."""
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
    """Return whether a statement, or one that uses its result, may change the program."""
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
    names = {
        name.id
        for node in nodes
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign)
        for name in ast.walk(node)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    } - seen
    shares = any(isinstance(node, ast.Global | ast.Nonlocal) for node in ast.walk(scope))
    is_kept = bool(names) and (not is_script if scope is tree else shares)
    if is_kept or any(map(_does_more, nodes)):
        return True
    seen |= names
    users = (
        user
        for user in ast.walk(scope)
        if isinstance(user, ast.stmt)
        and any(
            isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load)
            for node in own(user)
        )
    )
    return any(_matters(tree, user, seen, is_script=is_script) for user in users)


def _without_raised(node: ast.AST) -> Iterator[ast.AST]:
    """Walk the nodes of a statement, but not the errors that it raises: these end the program."""
    yield node
    if not isinstance(node, ast.Raise):
        for child in ast.iter_child_nodes(node):
            yield from _without_raised(child)


def _does_more(node: ast.AST) -> bool:
    match node:
        case ast.Call():
            return called(node) not in _HARMLESS
        case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
            return True
    return isinstance(node, _CHANGES)


# --- Lines that request the CPU -------------------------------------------------------------------

_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)
_WITH: Final = (ast.With, ast.AsyncWith)


def may_choose_device(frame: Frame) -> bool:
    """Return whether the line that enters a CPU scope may request another device elsewhere.

    It cannot if it names the CPU and there is no condition around it in its file.
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
    devices = [  # of `tf.device` and `keras.device`
        device
        for node in entered
        if isinstance(node, ast.Call) and called(node) == "device"
        for device in (*node.args[:1], *(keyword.value for keyword in node.keywords))
    ]
    is_spelt_out = all(is_text(each, tree, _is_name) or _is_a_cpu(each) for each in devices)
    names_cpu = any(is_text(each, tree, _names_cpu) or _is_a_cpu(each) for each in devices)
    return any(map(decides, entered[1:])) or not (is_spelt_out and names_cpu)


def _is_a_cpu(node: ast.AST) -> bool:
    """Return whether an expression is one of the listed CPUs, such as `cpus()[0].name`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return lists_cpus(node)


def _is_name(text: object) -> bool:
    return text is None or isinstance(text, str)


def _names_cpu(text: object) -> bool:
    return isinstance(text, str) and "cpu" in text.lower()

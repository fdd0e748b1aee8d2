"""Finds source lines that hide GPUs or request the CPU on every machine.

A recording shows the effect of a line on this machine. The effect is the same on every machine if
the line uses only constants and is unconditional. The effect of other lines may differ.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Final

from traceanalyzer.capture_file.document import Frame
from traceanalyzer.capture_file.source_lines import constants, statements, syntax_of

_CONDITIONS: Final = (
    *(ast.If, ast.IfExp, ast.Try, ast.TryStar, ast.ExceptHandler, ast.Match, ast.BoolOp),
    *(ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)
_CPU: Final = re.compile(
    r"'[^']*cpu[^']*'|(?:[\w.]+\.)?list_(?:logical|physical)_devices\('CPU'\)\[\d+\](?:\.name)?",
    re.IGNORECASE,
)
_HIDES: Final = re.compile(
    r"(?:os\.)?environ\['CUDA_VISIBLE_DEVICES'\] = '(?:-1)?'"
    r"|(?:[\w.]+\.)?set_visible_devices\(\[\], 'GPU'\)"
)
_CHANGES_VISIBILITY: Final = re.compile(r"CUDA_VISIBLE_DEVICES|set_visible_devices")
_IMPORTS: Final = re.compile(r"(?:import|from) .*")
# Modules and texts by which a program finds GPUs without TensorFlow.
_MODULES: Final = frozenset({"GPUtil", "gpustat", "nvidia_smi", "py3nvml", "pynvml"})
_TEXTS: Final = ("nvidia-smi", "/proc/driver/nvidia", "/dev/nvidia")
# Calls that a statement may contain if all it does is print what it found.
_PRINTING: Final = frozenset(
    {
        *{"print", "len", "str", "bool", "list_physical_devices", "list_logical_devices"},
        *{"is_gpu_available", "gpu_device_name", "is_built_with_cuda"},
    }
)


def always_requests_cpu(frame: Frame) -> bool:
    """Return whether the line that enters a `tf.device` scope requests the CPU on every machine."""
    tree = syntax_of(frame.file)
    if tree is None:
        return False
    nodes = [node for node in ast.walk(tree) if _is_at(node, frame.line)]
    devices = [
        device
        for node in nodes
        if isinstance(node, ast.Call) and _called(node) == "device"
        for device in (*node.args, *(keyword.value for keyword in node.keywords))
    ]
    is_conditional = any(isinstance(node, _CONDITIONS) and not _is_main(node) for node in nodes)
    return bool(devices) and not is_conditional and all(_names_cpu(d, tree) for d in devices)


def always_hides_gpus(frames: Sequence[Frame]) -> bool:
    """Return whether a line hides all GPUs on every machine, if the program does not query GPUs.

    The line must be a top-level statement, and nothing else in the files may change the visibility.

    Args:
        frames: The call stack at the line, innermost first.
    """
    trees = {frame.file: syntax_of(frame.file) for frame in frames}
    running = [_statement_at_top(trees[frame.file], frame.line) for frame in frames]
    texts = (ast.unparse(tree) for tree in trees.values() if tree is not None)
    return (
        any(map(_HIDES.fullmatch, running[:1]))
        and all(map(_IMPORTS.fullmatch, running[1:]))
        and sum(len(_CHANGES_VISIBILITY.findall(text)) for text in texts) == 1
    )


def _statement_at_top(tree: ast.Module | None, line: int) -> str:
    body = [] if tree is None else tree.body
    return next((ast.unparse(each) for each in body if _is_at(each, line)), "")


def gpu_queries(file: str) -> Iterator[int]:
    """Yield the lines of a file that query GPUs without TensorFlow."""
    tree = syntax_of(file)
    nodes = [] if tree is None else [*ast.walk(tree)]
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        match node:
            case ast.Constant(value=str(text)) if any(part in text for part in _TEXTS):
                if id(node) not in docstrings:
                    yield node.lineno
            case ast.Import(names=names) if any(n.name.split(".")[0] in _MODULES for n in names):
                yield node.lineno
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in _MODULES:
                yield node.lineno
            case ast.Attribute(value=ast.Name(id="torch"), attr="cuda"):
                yield node.lineno


def only_prints(file: str, line: int) -> bool:
    """Return whether the statement at a line only prints the available GPUs."""
    tree = syntax_of(file)
    around = [] if tree is None else [*statements(tree, line)]
    nodes = [*ast.walk(around[-1])] if around and isinstance(around[-1], ast.Expr) else []
    calls = {_called(node) for node in nodes if isinstance(node, ast.Call)}
    # An index fails without a GPU, which an `except` may handle.
    is_more = any(isinstance(node, ast.NamedExpr | ast.Subscript) for node in nodes)
    return "print" in calls <= _PRINTING and not is_more


def _is_at(node: ast.AST, line: int) -> bool:
    return getattr(node, "lineno", line + 1) <= line <= getattr(node, "end_lineno", 0)


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _is_main(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.dump(node.test)


def _names_cpu(node: ast.expr, tree: ast.Module) -> bool:
    if isinstance(node, ast.Name) and node.id in constants(tree):
        if any(isinstance(each, ast.alias) and each.name == "*" for each in ast.walk(tree)):
            return False  # it may bind the name again
        node = constants(tree)[node.id].value
    return _CPU.fullmatch(ast.unparse(node)) is not None

"""Edits to the program's own lines: devices of scopes, dtypes, and arguments."""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from traceanalyzer.changes.source import (
    ParsedStatement,
    Sources,
    Span,
    argument,
    around,
    name_of,
    over,
    root_of,
)
from traceanalyzer.changes.variable_users import VariableUse
from traceanalyzer.data_files import toml
from traceanalyzer.model.changes import Edit
from traceanalyzer.placement.kernel_tables import Argument
from traceanalyzer.placement.kernel_types import definition_of

_CPU: Final = re.compile(r"\bcpu(:\d+)?", re.IGNORECASE)
_MAKERS: Final = ("Variable", "VariableV1", "get_variable", "add_weight", "add_variable")
_PYTHON: Final[dict[str, dict[str, Any]]] = toml("changes/data/python.toml")
# Of functions that create tensors or arrays; None: only by name.
_DTYPE_AT: Final[dict[str, int | None]] = {
    **_PYTHON["dtype_at"],
    **dict.fromkeys(("arange", "eye", "range")),
}
_LITERALS: Final = (ast.Constant, ast.List, ast.Tuple, ast.UnaryOp)
_SLICES: Final = "IndexedSlices"
# Ops that methods of variables create: `assign_add`, `scatter_sub`.
_METHOD: Final = re.compile(r"(Assign(?:Add|Sub)?)VariableOp|Resource(Scatter\w+)")
_VERSION: Final = re.compile(r"V\d+$")
_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# The advice of a cause: for an input, or for an argument.
_CAST: Final = re.compile(r"(?P<name>\w+) = tf\.cast\((?P=name), tf\.(?P<dtype>\w+)\)")
_ARGUMENT: Final = re.compile(r"(?P<name>[a-z_]+)=(?P<value>[\w.\"]+)")


def device_edit(sources: Sources, file: str, line: int, *, soft: bool = True) -> Edit | None:
    """Return the edit that makes a `tf.device` scope request the GPU instead of the CPU.

    Without soft placement, request no device: ops without a GPU kernel would fail on the GPU.
    """
    found = sources.call(file, line, "device")
    if found is None:
        return None
    source, call = found
    given = argument(call, 0, "device_name", "device", "name_or_function")
    source, given = sources.constant(file, given) or (source, given)
    if given is None or not _names_cpu(sources, file, given):
        return None
    new = '"/GPU:0"' if soft else "None"
    if soft and isinstance(given, ast.Constant):
        new = _CPU.sub(lambda m: "GPU:0" if m[0].isupper() else "gpu:0", source.text(given))
    return source.edited(over(given, new))


def _names_cpu(sources: Sources, file: str, node: ast.AST) -> bool:
    if isinstance(node, ast.IfExp):
        return any(_names_cpu(sources, file, each) for each in (node.body, node.orelse))
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and _CPU.search(node.value) is not None
    defined = sources.constant(file, node)
    return defined is not None and _names_cpu(sources, file, defined[1])


def unhiding_edit(sources: Sources, file: str, line: int) -> Edit | None:
    """Return the edit that removes a line that hides the GPUs."""
    source = sources.at(file, line)
    if source is None:
        return None
    (first, *_) = source.nodes
    assigns = isinstance(first, ast.Assign) and isinstance(first.targets[0], ast.Subscript)
    hiding = {"set_visible_devices", "setdefault", "putenv"}
    is_call = isinstance(first, ast.Expr) and name_of(first.value) in hiding
    return source.removed() if assigns or is_call else None


def variable_edits(sources: Sources, file: str, line: int, dtype: str) -> tuple[Edit, ...]:
    """Return the edits that change the dtype of the variable that a line creates."""
    found = sources.call(file, line, *_MAKERS)
    if found is None:
        return ()
    source, call = found
    value = argument(call, 0, "initial_value") if name_of(call).startswith("Variable") else None
    given = [argument(call, None, "dtype"), None if value is None else _dtype_argument(value)]
    dtypes = [each for each in given if each is not None]
    if dtypes:
        defined = sources.constant(file, dtypes[0])
        source, dtypes = (source, dtypes) if defined is None else (defined[0], [defined[1]])
        spans = [span for each in dtypes for span in _retyped(source, each, dtype)]
        return (source.edited(*spans),) if spans or defined else ()
    is_maker = isinstance(value, ast.Call) and name_of(value) in _DTYPE_AT
    if value is None or isinstance(value, _LITERALS) or is_maker:
        maker = value if isinstance(value, ast.Call) else call
        root = root_of(maker.func)
        has_root = root in {"tf", "np", "numpy", "tensorflow"}
        spelled = f"{root}.{dtype}" if has_root else f'"{dtype}"'
        return (source.appended(maker, f"dtype={spelled}"),)
    root = root_of(call.func)
    if not root or isinstance(value, ast.Starred):
        return ()
    return (source.edited(*around(value, f"{root}.cast(", f", {root}.{dtype})")),)


def _dtype_argument(node: ast.AST) -> ast.expr | None:
    if not isinstance(node, ast.Call):
        return None
    if name_of(node) == "astype":
        return argument(node, 0, "dtype")
    return argument(node, _DTYPE_AT.get(name_of(node)), "dtype")


def _retyped(source: ParsedStatement, node: ast.AST, dtype: str) -> Iterator[Span]:
    if isinstance(node, ast.Attribute):
        yield over(node, f"{source.text(node.value)}.{dtype}")
    elif isinstance(node, ast.IfExp):
        root = next((root_of(n) for n in ast.walk(node) if isinstance(n, ast.Attribute)), "")
        yield over(node, f"{root}.{dtype}" if root else f'"{dtype}"')
    elif isinstance(node, ast.Constant | ast.Name):
        yield over(node, f'"{dtype}"')


def combined_edit(sources: Sources, other: VariableUse, dtype: str) -> tuple[Edit | None, bool]:
    """Return any edit that casts a value combined with a variable, and whether it suffices.

    A literal needs no edit, because TensorFlow converts it.
    """
    source = sources.at(*other.place)
    values = [] if source is None else _combining(source, other)
    if source is None or len(values) != 1:
        return None, other.is_constant
    (given,) = values
    if isinstance(given, _LITERALS) or (other.is_constant and not isinstance(given, ast.Call)):
        return None, True
    old = _dtype_argument(given)
    if old is not None and not isinstance(old, ast.Name):
        return source.edited(*_retyped(source, old, dtype)), True
    return source.edited(*around(given, "tf.cast(", f", tf.{dtype})")), True


def _combining(source: ParsedStatement, other: VariableUse) -> Sequence[ast.expr]:
    """Return the expressions of a statement that its op may combine with a variable."""
    of_variable = _METHOD.fullmatch(other.op)
    if of_variable is None:
        inputs = _inputs(other.op)[other.slot :]
        found = [_input(m, other.op, inputs[0].name) for m in _makers(source, other.op) if inputs]
    else:
        method = _CAPITAL.sub("_", of_variable[1] or of_variable[2]).lower()
        at = 1 if method.startswith("scatter_nd") else 0
        names = ("value", "delta", "sparse_delta", "updates")
        found = [argument(call, at, *names) for call in source.calls(method)]
        slices = [e for e in found if isinstance(e, ast.Call) and name_of(e) == _SLICES]
        found = [argument(each, 0, "values") for each in slices] or found
    return [each for each in found if each is not None]


def op_edit(  # noqa: PLR0911, PLR0913, PLR0917 - a line and what to do there
    sources: Sources, file: str, line: int, op: str, advice: str, result: str = ""
) -> Edit | None:
    """Return the edit that applies a cause's advice to the line that creates an op, if possible.

    The advice is `x = tf.cast(x, tf.float32)` for each input to cast, or `argument=value`. `result`
    is the dtype to cast the result back to, as Python spells it; "" for none.
    """
    source = sources.at(file, line)
    if source is None:
        return None
    makers, value = _makers(source, op), _ARGUMENT.fullmatch(advice)
    if value is not None:
        calls = [maker for maker in makers if isinstance(maker, ast.Call)]
        if len(calls) != 1:
            return None
        given = argument(calls[0], None, value["name"])
        if given is not None:
            return source.edited(over(given, value["value"]))
        return source.appended(calls[0], advice)
    casts = [_CAST.fullmatch(each) for each in advice.splitlines()]
    if not casts or len(makers) != 1:
        return None
    (maker,) = makers
    root = root_of(maker.func) if isinstance(maker, ast.Call) else ""
    root = root if root in {"tf", "tensorflow"} else "tf"
    spans: list[Span] = []
    for cast in casts:
        given = None if cast is None else _input(maker, op, cast["name"])
        if cast is None or given is None:
            return None
        old = _dtype_argument(given) if name_of(given) == "cast" else None
        retyped = [] if old is None else list(_retyped(source, old, cast["dtype"]))
        spans += retyped or around(given, f"{root}.cast(", f", {root}.{cast['dtype']})")
    if result:
        before, after = around(maker, f"{root}.cast(", f", {root}.{result})")
        spans = [before, *spans, after]
    return source.edited(*spans)


def _makers(source: ParsedStatement, op: str) -> list[ast.Call | ast.BinOp]:
    plain = _VERSION.sub("", op)
    names = {_CAPITAL.sub("_", plain).lower(), _PYTHON["functions"].get(plain, op), op, plain}
    found: list[ast.Call | ast.BinOp] = [*source.calls(*names)]
    operators = {_PYTHON["operators"].get(name) for name in (op, plain)}
    operations = (node for node in source.nodes if isinstance(node, ast.BinOp))
    found += [node for node in operations if type(node.op).__name__ in operators]
    return found


def _inputs(op: str) -> Sequence[Argument]:
    definition = definition_of(op)
    return () if definition is None else definition.inputs


def _input(maker: ast.Call | ast.BinOp, op: str, name: str) -> ast.expr | None:
    """Return the expression passed for an input of an op; None for a list of tensors."""
    inputs = _inputs(op)
    at = next((k for k, each in enumerate(inputs) if each.name == name), None)
    if at is None or inputs[at].number_attr or inputs[at].type_list_attr:
        return None
    if isinstance(maker, ast.BinOp):
        return (maker.left, maker.right)[at] if at < 2 else None  # noqa: PLR2004 - two operands
    at = _PYTHON["positions"].get(op, {}).get(name, at)
    return argument(maker, at, name, *_PYTHON["renamed"].get(name, ()))

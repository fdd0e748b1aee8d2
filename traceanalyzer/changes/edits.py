"""Edits to the program's own lines: devices of scopes, dtypes, and arguments."""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from traceanalyzer.changes.source import (
    TENSORFLOW,
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
    if dtypes:  # not where a constant defines it: other lines may use that
        spans = [span for each in dtypes for span in _retyped(source, each, dtype)]
        return (source.edited(*spans),) if spans else ()
    is_maker = isinstance(value, ast.Call) and name_of(value) in _DTYPE_AT
    if value is None or isinstance(value, _LITERALS) or is_maker:
        maker = value if isinstance(value, ast.Call) else call
        root = root_of(maker.func)
        has_root = root in {"tf", "np", "numpy", "tensorflow"}
        spelled = f"{root}.{dtype}" if has_root else f'"{dtype}"'
        return (source.appended(maker, f"dtype={spelled}"),)
    root = sources.tensorflow(file)
    if not root or _is_unpacked(call) or isinstance(value, ast.Lambda):
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
    if old is not None:
        return source.edited(*_retyped(source, old, dtype)), True
    root = sources.tensorflow(other.place[0])
    edit = source.edited(*around(given, f"{root}.cast(", f", {root}.{dtype})")) if root else None
    return edit, edit is not None


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


@dataclass(frozen=True, kw_only=True)
class OpAdvice:
    """What to change in the call that creates an op."""

    op: str
    #: `x = tf.cast(x, tf.float32)` for each input to cast, or `argument=value`.
    code: str
    #: The dtype to cast the result back to, as Python spells it; "" if the result keeps its dtype.
    result: str = ""


def op_edit(sources: Sources, file: str, line: int, advice: OpAdvice) -> Edit | None:
    """Return the edit that applies a cause's advice to the line that creates an op, if possible.

    The result keeps its dtype, so the edit fits whatever uses it.
    """
    source = sources.at(file, line)
    maker = None if source is None else _maker(source, advice.op)
    root = sources.tensorflow(file)
    if source is None or maker is None or not root:
        return None
    is_argument = _ARGUMENT.fullmatch(advice.code) is not None
    spans = (_argument if is_argument else _casts)(source, maker, advice, root)
    if not spans:
        return None
    if advice.result:
        before, after = around(maker, f"{root}.cast(", f", {root}.{advice.result})")
        spans = [before, *spans, after]
    return source.edited(*spans)


def api_of(sources: Sources, file: str, line: int, op: str) -> str:
    """Return the name of the function that a line calls to create an op, or ""."""
    source = sources.at(file, line)
    maker = None if source is None else _maker(source, op)
    is_call = source is not None and isinstance(maker, ast.Call)
    return source.text(maker.func) if is_call else ""  # type: ignore[union-attr]


def _maker(source: ParsedStatement, op: str) -> ast.Call | ast.BinOp | None:
    """Return the only call or operation of a statement that can create an op with one result."""
    makers, definition = _makers(source, op), definition_of(op)
    if any(isinstance(maker, ast.Call) and _is_unpacked(maker) for maker in makers):
        return None
    outputs = () if definition is None else definition.outputs
    is_one = len(outputs) == 1 and not (outputs[0].number_attr or outputs[0].type_list_attr)
    return makers[0] if is_one and len(makers) == 1 else None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_unpacked(call: ast.Call) -> bool:
    """Return whether a call has arguments that its text does not show: `*args` or `**kwargs`."""
    starred = any(isinstance(each, ast.Starred) for each in call.args)
    return starred or any(each.arg is None for each in call.keywords)


def _argument(
    source: ParsedStatement, maker: ast.Call | ast.BinOp, advice: OpAdvice, root: str
) -> list[Span]:
    value = _ARGUMENT.fullmatch(advice.code)
    known = _PYTHON["arguments"].get(advice.op, {})
    overriding = _PYTHON["overriding"].get(advice.op, {}).items()
    if value is None or not isinstance(maker, ast.Call) or value["name"] not in known:
        return []
    others = [argument(maker, at, name) for name, at in overriding]
    if any(each is not None and not _is_none(each) for each in others):
        return []
    text = re.sub(r"^tf\b", root, value["value"])
    given = argument(maker, known[value["name"]], value["name"])
    if given is not None:
        return [over(given, text)]
    return [source.at_end(maker, f"{value['name']}={text}")]


def _casts(
    _: ParsedStatement, maker: ast.Call | ast.BinOp, advice: OpAdvice, root: str
) -> list[Span]:
    spans: list[Span] = []
    for each in advice.code.splitlines():
        cast = _CAST.fullmatch(each)
        given = None if cast is None else _input(maker, advice.op, cast["name"])
        if cast is None or given is None:
            return []
        old = _dtype_argument(given) if name_of(given) == "cast" else None
        is_spelled = isinstance(old, ast.Attribute | ast.Constant)
        retyped = over(old, f"{root}.{cast['dtype']}") if old is not None and is_spelled else None
        whole = around(given, f"{root}.cast(", f", {root}.{cast['dtype']})")
        spans += whole if retyped is None else [retyped]
    return spans


def _makers(source: ParsedStatement, op: str) -> list[ast.Call | ast.BinOp]:
    plain = _VERSION.sub("", op)
    names = {_CAPITAL.sub("_", plain).lower(), _PYTHON["functions"].get(plain, op), op, plain}
    calls = source.calls(*names)
    found: list[ast.Call | ast.BinOp] = [c for c in calls if root_of(c.func) in TENSORFLOW]
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

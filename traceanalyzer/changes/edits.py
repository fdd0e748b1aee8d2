"""Edits of the program's own lines: devices of scopes, dtypes, and arguments."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.changes.source import argument, end_of, name_of, root_of, start_of
from traceanalyzer.placement.kernel_types import definition_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traceanalyzer.changes.source import Source, Sources
    from traceanalyzer.changes.variable_users import Combination
    from traceanalyzer.model.changes import Edit, Place

_CPU: Final = re.compile(r"\bcpu(:\d+)?", re.IGNORECASE)
_GPU: Final = "/GPU:0"


def device_edit(sources: Sources, file: str, line: int, *, soft: bool = True) -> Edit | None:
    """Return the edit that makes a `tf.device` scope request the GPU instead of the CPU.

    Without soft placement, an op without a GPU kernel would fail, so it requests no device.
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

    Return neither if the program creates several, and no edit if the line names no CPU.
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


_MAKERS: Final = ("Variable", "VariableV1", "get_variable", "add_weight", "add_variable")
# The position of the dtype in functions that create tensors or arrays; None: only by name.
_DTYPE_AT: Final[dict[str, int | None]] = {
    "arange": None, "array": 1, "asarray": 1, "cast": 1, "constant": 1, "convert_to_tensor": 1,
    "eye": None, "full": 2, "ones": 1, "ones_like": 1, "random_uniform": 3, "range": None,
    "uniform": 3, "zeros": 1, "zeros_like": 1,
}  # fmt: skip
_LITERALS: Final = (ast.Constant, ast.List, ast.Tuple, ast.UnaryOp)
# Functions of TensorFlow that make an op, if not the op's name in snake case.
_FUNCTIONS: Final = {
    "All": "reduce_all", "Any": "reduce_any", "BatchMatMul": "matmul", "DenseBincount": "bincount",
    "MatMul": "matmul", "Max": "reduce_max", "Mean": "reduce_mean", "Min": "reduce_min",
    "NonMaxSuppression": "non_max_suppression", "Prod": "reduce_prod", "Select": "where",
    "Sum": "reduce_sum", "TopK": "top_k",
}  # fmt: skip
_OPERATORS: Final[dict[str, type[ast.operator]]] = {
    "AddV2": ast.Add, "BatchMatMulV2": ast.MatMult, "FloorDiv": ast.FloorDiv, "FloorMod": ast.Mod,
    "MatMul": ast.MatMult, "Mul": ast.Mult, "Pow": ast.Pow, "RealDiv": ast.Div, "Sub": ast.Sub,
}  # fmt: skip
# The names of inputs in Python functions, if they differ from the op's.
_RENAMED: Final = {"input": ("input_tensor", "images", "logits", "x"), "arr": ("arr", "values")}
_SLICES: Final = "IndexedSlices"
_METHODS: Final = {
    "AssignAddVariableOp": "assign_add",
    "AssignSubVariableOp": "assign_sub",
    "AssignVariableOp": "assign",
}
_VERSION: Final = re.compile(r"V\d+$")
_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CAST: Final = re.compile(r"(?P<name>\w+) = tf\.cast\((?P=name), tf\.(?P<dtype>\w+)\)")
_ARGUMENT: Final = re.compile(r"(?P<name>[a-z_]+)=(?P<value>[\w.\"]+)")


# --- variables ----------------------------------------------------------------------------------


def variable_edits(sources: Sources, file: str, line: int, dtype: str) -> tuple[Edit, ...]:
    """Return the edits that give the variable that a line creates another dtype."""
    source = sources.at(file, line)
    makers = [] if source is None else source.calls(*_MAKERS)
    if source is None or len(makers) != 1:
        return ()
    call = makers[0]
    value = argument(call, 0, "initial_value") if name_of(call).startswith("Variable") else None
    of_value = None if value is None else _dtype_argument(value)
    given = argument(call, None, "dtype")
    if given is not None:
        parts = list(_retyped(source, given, dtype))
        parts += () if of_value is None else _retyped(source, of_value, dtype)
        return _edits(sources, source, given, parts, dtype)
    if of_value is not None:
        return _edits(sources, source, of_value, list(_retyped(source, of_value, dtype)), dtype)
    return _with_dtype(source, call, value, dtype)


def _with_dtype(
    source: Source, call: ast.Call, value: ast.expr | None, dtype: str
) -> tuple[Edit, ...]:
    """Return the edit that gives a variable, or its initial value, a dtype where it has none."""
    if value is None or isinstance(value, _LITERALS):
        return (source.appended(call, f"dtype={_spelt(call, dtype)}"),)
    if isinstance(value, ast.Call) and name_of(value) in _DTYPE_AT:
        return (source.appended(value, f"dtype={_spelt(value, dtype)}"),)
    root = root_of(call.func)
    if not root or isinstance(value, ast.Starred):
        return ()
    return (source.replaced([(value, f"{root}.cast({source.text(value)}, {root}.{dtype})")]),)


def _edits(
    sources: Sources,
    source: Source,
    given: ast.AST,
    parts: list[tuple[ast.AST, str]],
    dtype: str,
) -> tuple[Edit, ...]:
    """Return the edits of a dtype, or of the constant in the file that defines it."""
    if isinstance(given, ast.Name):
        defined = sources.constant(source.statement.file, given.id)
        for node in () if defined is None else defined.nodes:
            if defined is not None and isinstance(node, ast.Assign):
                return (defined.replaced(_retyped(defined, node.value, dtype)),)
    return (source.replaced(parts),) if parts else ()


def _dtype_argument(node: ast.AST) -> ast.expr | None:
    """Return the dtype argument of a call, if its function takes a dtype."""
    if not isinstance(node, ast.Call):
        return None
    if name_of(node) == "astype":
        return argument(node, 0, "dtype")
    return argument(node, _DTYPE_AT.get(name_of(node)), "dtype")


def _retyped(source: Source, node: ast.AST, dtype: str) -> Iterator[tuple[ast.AST, str]]:
    """Walk the replacement of a dtype."""
    if isinstance(node, ast.Attribute):
        yield node, f"{source.text(node.value)}.{dtype}"
    elif isinstance(node, ast.Constant):
        yield node, f'"{dtype}"'
    elif isinstance(node, ast.IfExp):
        root = next((root_of(n) for n in ast.walk(node) if isinstance(n, ast.Attribute)), "")
        yield node, f"{root}.{dtype}" if root else f'"{dtype}"'
    elif isinstance(node, ast.Name):
        yield node, f'"{dtype}"'


def _spelt(call: ast.Call, dtype: str) -> str:
    root = root_of(call.func)
    return f"{root}.{dtype}" if root in {"tf", "np", "numpy", "tensorflow"} else f'"{dtype}"'


def combined_edit(sources: Sources, other: Combination, dtype: str) -> tuple[Edit | None, bool]:
    """Return the edit that casts the value combined with a variable, and whether it is complete.

    A literal needs no edit: Python converts it. A constant from a call (`tf.ones(n)`) does.
    """
    source = sources.at(*other.place)
    makers = [] if source is None else _combining(source, other)
    if source is None or len(makers) != 1:
        return None, other.is_constant
    given = makers[0]
    if isinstance(given, _LITERALS) or (other.is_constant and not isinstance(given, ast.Call)):
        return None, True
    old = _dtype_argument(given)
    if old is not None and not isinstance(old, ast.Name):
        return source.replaced(_retyped(source, old, dtype)), True
    return source.rewritten(
        [(start_of(given), "tf.cast("), (end_of(given), f", tf.{dtype})")]
    ), True


def _combining(source: Source, other: Combination) -> list[ast.expr]:
    """Return the values that a statement may combine with a variable, by the type of the op."""
    method = _METHODS.get(other.op)
    if method is None and other.op.startswith("ResourceScatter"):
        method = _CAPITAL.sub("_", other.op.removeprefix("Resource")).lower()
    if method is not None:
        calls = source.calls(method)
        at = 1 if method.startswith("scatter_nd") else 0
        given = [argument(call, at, "value", "delta", "sparse_delta", "updates") for call in calls]
        slices = [
            argument(each, 0, "values")
            for each in given
            if isinstance(each, ast.Call) and name_of(each) == _SLICES
        ]
        return [each for each in slices or given if each is not None]
    definition = definition_of(other.op)
    if definition is None or other.slot >= len(definition.inputs):
        return []
    name = definition.inputs[other.slot].name
    found = (_input(maker, other.op, name) for maker in _makers(source, other.op))
    return [each for each in found if each is not None]


# --- inputs and arguments of ops ----------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class OpAdvice:
    """A cause's advice for the line that creates an op."""

    op: str  #: its type
    code: str  #: `x = tf.cast(x, tf.float32)` for inputs, or `argument=value`
    result: str = ""  #: the dtype to cast the result back to, as Python spells it; "" for none

    @property
    def casts(self) -> dict[str, str]:
        """The inputs to cast, with their new dtypes; empty for other advice."""
        found = [_CAST.fullmatch(line) for line in self.code.splitlines()]
        return {} if None in found else {each["name"]: each["dtype"] for each in found if each}

    @property
    def argument(self) -> tuple[str, str] | None:
        """The name and value of the argument to pass; None for other advice."""
        found = _ARGUMENT.fullmatch(self.code)
        return None if found is None else (found["name"], found["value"])

    @property
    def is_applicable(self) -> bool:
        """Whether the advice is about the line that creates the op."""
        return bool(self.casts) or self.argument is not None


def op_edit(sources: Sources, file: str, line: int, advice: OpAdvice) -> Edit | None:
    """Return the edit that applies advice to the line that creates an op, if it can be parsed."""
    source = sources.at(file, line)
    if source is None:
        return None
    if advice.argument is not None:
        return _with_argument(source, advice.op, *advice.argument)
    return _cast_inputs(source, advice) if advice.casts else None


def _cast_inputs(source: Source, advice: OpAdvice) -> Edit | None:
    makers, result = _makers(source, advice.op), advice.result
    if len(makers) != 1:
        return None
    (maker,) = makers
    root = root_of(maker.func) if isinstance(maker, ast.Call) else "tf"
    root = root if root in {"tf", "tensorflow"} else "tf"
    inserted: list[tuple[tuple[int, int], str]] = []
    replaced: list[tuple[ast.AST, str]] = []
    if result:
        inserted.append((start_of(maker), f"{root}.cast("))
    for name, dtype in advice.casts.items():
        given = _input(maker, advice.op, name)
        if given is None:
            return None
        old = _dtype_argument(given) if name_of(given) == "cast" else None
        retyped = [] if old is None else list(_retyped(source, old, dtype))
        if retyped:
            replaced += retyped
        else:
            inserted.append((start_of(given), f"{root}.cast("))
            inserted.append((end_of(given), f", {root}.{dtype})"))
    if result:
        inserted.append((end_of(maker), f", {root}.{result})"))
    return source.rewritten(inserted, replaced)


def _with_argument(source: Source, op: str, name: str, value: str) -> Edit | None:
    """Return the edit that adds an argument to the call that creates an op."""
    calls = [maker for maker in _makers(source, op) if isinstance(maker, ast.Call)]
    if len(calls) != 1:
        return None
    given = argument(calls[0], None, name)
    if given is not None:
        return source.replaced([(given, value)])
    return source.appended(calls[0], f"{name}={value}")


def _makers(source: Source, op: str) -> list[ast.Call | ast.BinOp]:
    """Return the calls and operators of a statement that may create an op."""
    plain = _VERSION.sub("", op)
    names = {_CAPITAL.sub("_", plain).lower(), _FUNCTIONS.get(plain, op), op, plain}
    found: list[ast.Call | ast.BinOp] = [*source.calls(*names)]
    operator = _OPERATORS.get(op) or _OPERATORS.get(plain)
    if operator is not None:
        found += [n for n in source.nodes if isinstance(n, ast.BinOp) and type(n.op) is operator]
    return found


def _input(maker: ast.Call | ast.BinOp, op: str, name: str) -> ast.expr | None:
    """Return the expression passed for an input of an op; None for a list of tensors."""
    definition = definition_of(op)
    inputs = () if definition is None else definition.inputs
    at = next((k for k, each in enumerate(inputs) if each.name == name), None)
    if at is None or inputs[at].number_attr or inputs[at].type_list_attr:
        return None
    if isinstance(maker, ast.BinOp):
        return (maker.left, maker.right)[at] if at < 2 else None  # noqa: PLR2004 - two operands
    return argument(maker, at, name, *_RENAMED.get(name, ()))

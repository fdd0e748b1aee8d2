"""Follows the answer to "is there a GPU?" through a program's source, to the devices it requests.

Many programs request the CPU only where they find no GPU. The answer is followed through
assignments, arguments, returned values, attributes, and conditions around any of them. Functions
and attributes are distinguished by name alone.
"""

from __future__ import annotations

import ast
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from traceanalyzer.capture_file.syntax import (
    FUNCTIONS,
    decides,
    is_text,
    own,
    statements,
    syntax_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from traceanalyzer.capture_file.document import Frame

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
# A local variable with its function; None for any other name.
_Name: TypeAlias = tuple[_Function | None, str]
_ANYWHERE: Final = None


class _Statement(NamedTuple):
    """A statement."""

    nodes: list[ast.AST]  #: its own nodes; itself first
    around: list[ast.AST]  #: nodes of the conditions around it in its function
    function: _Function | None  #: the function that it is in, or None
    owners: Mapping[str, _Function]  #: the function of each local variable


class GpuAnswers:
    """Knows the statements that depend on which GPUs there are."""

    def __init__(self, files: Iterable[str], questions: Iterable[tuple[str, int]]) -> None:
        self._trees = {f: tree for f in files if (tree := syntax_of(f)) is not None}
        self._asking = {id(found) for place in questions if (found := self._statement_at(*place))}
        self._functions: dict[str, _Function] = {}
        self._modules = {PurePath(file).stem for file in self._trees}
        self._foreign: set[str] = set()  # names of other libraries
        self._statements: dict[int, _Statement] = {}
        for tree in self._trees.values():
            self._read(tree, [], None, {})
        self._names: set[_Name] = set()
        before = -1
        while before < len(self._names):
            before = len(self._names)
            for statement in self._statements.values():
                self._names.update(self._names_reached(statement))

    def reach(self, frame: Frame) -> bool:
        """Return whether what a line does depends on an answer."""
        found = self._statement_at(frame.file, frame.line)
        return found is not None and self._depends(self._statements[id(found)])

    def _statement_at(self, file: str, line: int) -> ast.AST | None:
        around = list(statements(self._trees[file], line)) if file in self._trees else []
        return next((s for s in reversed(around) if isinstance(s, ast.stmt)), None)

    def _read(
        self,
        node: ast.AST,
        around: list[ast.AST],
        function: _Function | None,
        owners: Mapping[str, _Function],
    ) -> None:
        if isinstance(node, FUNCTIONS):
            self._functions.setdefault(node.name, node)
            around, function = [], node
            owners = {**owners, **dict.fromkeys(_variables(node), node)}
        elif isinstance(node, ast.ClassDef):
            made_by = (f for f in node.body if isinstance(f, FUNCTIONS) and f.name == "__init__")
            self._functions.update((node.name, f) for f in made_by)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self._foreign.update(_foreign(node, self._modules))
        elif decides(node):
            around = [*around, *own(node)]
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self._statements[id(child)] = _Statement([*own(child)], around, function, owners)
            self._read(child, around, function, owners)

    def _depends(self, statement: _Statement) -> bool:
        return any(self._is_reached(n, statement) for n in (*statement.nodes, *statement.around))

    def _is_reached(self, node: ast.AST, statement: _Statement) -> bool:
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                return (statement.owners.get(name), name) in self._names
            case ast.Attribute(attr=name, ctx=ast.Load()) if _root(node) not in self._foreign:
                return (_ANYWHERE, name) in self._names
        return id(node) in self._asking

    def _names_reached(self, statement: _Statement) -> Iterator[_Name]:
        """Walk the names that have an answer, or what was made of one, by a statement."""
        head, owners = statement.nodes[0], statement.owners
        for node in statement.nodes:
            if isinstance(node, ast.Call):
                yield from self._parameters_reached(node, statement)
        if isinstance(head, (*FUNCTIONS, ast.ClassDef)) or not self._depends(statement):
            return
        if isinstance(head, ast.Return) and statement.function is not None:
            yield _ANYWHERE, statement.function.name
        for node in statement.nodes:
            match node:
                case (
                    ast.Name(id=name, ctx=ast.Store())
                    | ast.Subscript(value=ast.Name(id=name), ctx=ast.Store())
                ):
                    yield owners.get(name), name
                case ast.Attribute(attr=name, ctx=ast.Store()):
                    yield _ANYWHERE, name
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name))) if (
                    isinstance(head, ast.Expr) and name not in self._foreign
                ):  # like `parser.add_argument("--device", default=...)`
                    yield owners.get(name), name

    def _parameters_reached(self, call: ast.Call, statement: _Statement) -> Iterator[_Name]:
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        function = self._functions.get(name)
        if function is None:
            return
        names = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
        names = names[1:] if names[:1] in (["self"], ["cls"]) else names
        given = [*zip(names, call.args, strict=False), *((k.arg, k.value) for k in call.keywords)]
        is_asking = id(statement.nodes[0]) in self._asking
        for parameter, value in given:
            if is_asking or any(self._is_reached(node, statement) for node in ast.walk(value)):
                yield function, str(parameter)


def _variables(function: _Function) -> set[str]:
    nodes = [*ast.walk(function)]
    shared = {n for x in nodes if isinstance(x, ast.Global | ast.Nonlocal) for n in x.names}
    stored = {x.id for x in nodes if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)}
    return (stored | {x.arg for x in nodes if isinstance(x, ast.arg)}) - shared


def _foreign(node: ast.Import | ast.ImportFrom, modules: Collection[str]) -> Iterator[str]:
    """Walk the names that an import gives to modules of others."""
    module = getattr(node, "module", None) or ""
    for each in node.names:
        parts = {*each.name.split("."), *module.split(".")}
        if not getattr(node, "level", 0) and parts.isdisjoint(modules):
            yield each.asname or each.name.partition(".")[0]


def _root(node: ast.AST) -> str | None:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


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

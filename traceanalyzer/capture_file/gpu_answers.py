"""Follows the answer to "is there a GPU?" through a program's source, to the devices it requests.

Many programs request the CPU only where they find no GPU. The answer is followed through
assignments, arguments, returned values, attributes, and conditions around any of them. Functions
and attributes are distinguished by name alone.
"""

from __future__ import annotations

import ast
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from traceanalyzer.capture_file.syntax import FUNCTIONS, decides, own, statements, syntax_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

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
        """Follow the answers.

        Args:
            questions: File and line of each question which GPUs there are.
        """
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

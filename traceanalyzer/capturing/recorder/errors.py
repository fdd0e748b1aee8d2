"""Errors that explain a placement: out of memory, XLA errors, nonexistent devices.

A program may catch such an error and continue on the CPU. So this module records the line that
raised it and the handler that will catch it: the innermost matching `except` or `suppress(...)`
around the running lines. The handler is unknown if one of the user's context managers may catch the
error first. The error that ends the program is recorded, whatever its class.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import re
import sys
from contextlib import suppress
from functools import lru_cache, partial
from types import FrameType
from typing import Any, Iterator

from .frames import GENERATED, Frame, is_user_file, outwards, place_of, user_places
from .hooks import JournalWriter, RecorderPart

# Characters kept from the start and end of a message. The middle may list the lines that made an
# op; the end names the function.
_FIRST, _LAST = 2000, 1000
_MOST_ERRORS = 100
# An InvalidArgumentError of `XlaCompiler::CompileGraph` (tf2xla/xla_compiler.cc, `ValidateGraph`;
# run with TensorFlow 2.12, 2.18 and 2.21).
_XLA = "Detected unsupported operations when trying to compile graph"
# Of `EagerContext::SelectDevice` (eager/context.cc), and for nodes of colocation_graph.cc.
_NO_DEVICE = (
    "Could not satisfy device specification",
    "Unable to find any devices for spec",
    "Cannot assign a device for operation",
)
# Python warns about invalid escapes when it parses. Warning filters cannot be changed: the program
# shares them.
_ESCAPE = re.compile(r"\\(?:N\{[^}\n]*\}|[^{}\n]|(?=[{}]))")
_TRY = (ast.Try, getattr(ast, "TryStar", ast.Try))  # `except*`, since Python 3.11
_WITH = (ast.With, ast.AsyncWith)
# Libraries whose context managers catch no errors, but for those named below.
_HARMLESS = frozenset(
    ["_io", "_thread", "contextlib", "io", "keras", "tensorflow", "threading", "warnings"]
)
_MAY_CATCH = re.compile(r"(?:Async)?ExitStack|suppress|raises|assertRaises\w*")


class ErrorRecorder(RecorderPart):
    def __init__(self, journal: JournalWriter) -> None:
        super().__init__()
        self._journal = journal
        self._count = 0

    def install(self) -> None:
        from tensorflow.python.framework import errors_impl

        of_devices = dict.fromkeys(_NO_DEVICE, "no_device")
        for error, kinds in (
            (errors_impl.ResourceExhaustedError, {"": "resource_exhausted"}),
            (errors_impl.InvalidArgumentError, {_XLA: "xla_unsupported", **of_devices}),
        ):
            self.after(error, "__init__", partial(self._made, kinds))

    def _made(
        self, kinds: dict[str, str], _: None, error: BaseException, *__: Any, **___: Any
    ) -> None:
        message = str(getattr(error, "message", ""))  # `str(error)` can take long
        for pattern, kind in kinds.items():
            if pattern in message:
                self._record(kind, error)
                return

    def _record(self, where: str, error: BaseException) -> None:
        self._count += 1
        if self._count > _MOST_ERRORS:
            message = f"only the first {_MOST_ERRORS} errors are recorded"
            self._journal.note("errors_left_out", "info", message)
            return
        with self._journal.guard("an error"):
            frame = sys._getframe(1)
            handler = _handler(frame, type(error))
            _write(self._journal, where, error, user_places(frame), handler)


def journal_fatal(journal: JournalWriter) -> None:
    """Journal the error that ended the program; Python keeps it in `sys.last_value`."""
    error = getattr(sys, "last_value", None)
    if not isinstance(error, Exception):
        return
    raised: list[Frame] = []
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if is_user_file(code.co_filename) and GENERATED not in code.co_filename:
            raised.insert(0, (code.co_filename, traceback.tb_lineno, code.co_name, 1))
        traceback = traceback.tb_next
    _write(journal, "program", error, raised, None)


def _write(
    journal: JournalWriter,
    where: str,
    error: BaseException,
    raised: list[Frame],
    handler: tuple[Any, ...] | None,
) -> None:
    message = str(error)
    if len(message) > _FIRST + _LAST:
        message = f"{message[:_FIRST]} ... {message[-_LAST:]}"
    found = {"type": type(error).__name__, "message": message, "raised": raised}
    journal.write("error", where=where, **found, handler=handler)


def _handler(innermost: FrameType, error: type) -> tuple[str, int, str, tuple[int, int]] | None:
    """Return the `except` clause that will catch an error; None if there is none or it is unknown.

    The result is its file, its line, its function, and the first and last line of its body.
    """
    for frame in outwards(innermost):
        code = frame.f_code
        found = place_of(frame) if is_user_file(code.co_filename) else None
        if found is None:
            continue
        file, line, name = found
        tree = _syntax(file)
        if tree is None:
            return None
        # A `try` around a function's definition does not catch errors of its calls.
        first = code.co_firstlineno if file == code.co_filename else _first_line(tree, line)
        blocks = [n for n in ast.walk(tree) if isinstance(n, (*_TRY, *_WITH)) and first <= n.lineno]
        for block in sorted(blocks, key=lambda block: block.lineno, reverse=True):
            if not block.body[0].lineno <= line <= (block.body[-1].end_lineno or 0):
                continue
            for named, at, body in _clauses(block, frame):
                is_caught = _catches(named, frame, error)
                if is_caught is None:
                    return None
                if is_caught:
                    return file, at, name, body
    return None


def _clauses(block: Any, frame: FrameType) -> Iterator[tuple[Any, int, tuple[int, int]]]:
    """Yield each handler of a block: the errors it names, its line, and its body's line range."""
    for handler in getattr(block, "handlers", ()):
        last = handler.body[-1]
        yield handler.type, handler.lineno, (handler.body[0].lineno, last.end_lineno or last.lineno)
    for item in reversed(getattr(block, "items", ())):
        made = item.context_expr
        is_call = isinstance(made, ast.Call)
        value = _look_up(made.func if is_call else made, frame)
        nothing = block.lineno, block.lineno - 1
        if is_call and value is suppress and not made.keywords:
            yield ast.Tuple(elts=made.args), block.lineno, nothing
        elif _may_catch(value if is_call or value is None else type(value)):
            yield made, block.lineno, nothing  # it is unknown which errors it catches


def _may_catch(manager: Any) -> bool:
    """Return whether a context manager or its factory may catch errors, as user code may."""
    while isinstance(manager, partial):
        manager = manager.func
    name, module = (str(getattr(manager, key, None)) for key in ("__name__", "__module__"))
    return module.partition(".")[0] not in _HARMLESS or _MAY_CATCH.fullmatch(name) is not None


@lru_cache(maxsize=None)
def _syntax(file: str) -> ast.Module | None:
    """Return the syntax tree of a file or notebook cell; None if it cannot be read."""
    source = "".join(linecache.getlines(file))
    try:  # with harmless text in place of escapes, so that positions stay
        tree = ast.parse(_ESCAPE.sub(lambda escape: "_" * len(escape[0]), source))
    except (SyntaxError, ValueError, RecursionError):
        return None
    return tree if source else None


def _first_line(tree: ast.Module, line: int) -> int:
    """Return the first line of the innermost function around a line; 0 if there is none."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = [node for node in ast.walk(tree) if isinstance(node, functions)]
    return max((n.lineno for n in found if n.lineno <= line <= (n.end_lineno or 0)), default=0)


def _catches(named: ast.expr | None, frame: FrameType, error: type) -> bool | None:
    """Return whether `except NAMED` catches an error; None if that is unknown."""
    if named is None:
        return True
    found = _look_up(named, frame)
    classes = found if isinstance(found, tuple) else (found,)
    if any(isinstance(each, type) and issubclass(error, each) for each in classes):
        return True
    return False if all(isinstance(each, type) for each in classes) else None


def _look_up(node: ast.expr, frame: FrameType) -> Any:
    """Return the value of an expression without calling anything; None if it is unknown."""
    if isinstance(node, ast.Attribute):
        with suppress(Exception):  # of a property
            return getattr(_look_up(node.value, frame), node.attr)
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals, vars(builtins)):
            if node.id in names:
                return names[node.id]
    if isinstance(node, ast.Tuple):
        return tuple(_look_up(part, frame) for part in node.elts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _look_up(node.left, frame), _look_up(node.right, frame)
        if isinstance(left, tuple) and isinstance(right, tuple):
            return left + right
    return None

"""Errors that explain a placement: of `tf.config` calls, memory, XLA, devices that do not exist.

A program may meet such an error and go on in another way: on the CPU. So the line that raised is
noted, and the handler that will catch the error, which is found from the source of the functions
that are running: the innermost `try` around a running line whose `except` names the error's class.

The error that ends the program is noted too, whatever it is.

Of XLA's errors those are noted that name an op which it cannot compile. Programs that raise and
catch many InvalidArgumentErrors pay for a look at their text.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Iterator

from ..ops.frames import GENERATED, is_user_file, place
from ..process.hooks import Part, unseen

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from ..journal import Journal

# Of a message: what TensorFlow says first, and last. Between them it may have the lines that made
# an op, of libraries too; after them the function in which that was.
_FIRST, _LAST = 2000, 1000
_MOST_ERRORS = 100
# `XlaCompiler::CompileGraph` (tf2xla/xla_compiler.cc, `ValidateGraph`) words it so; run with
# TensorFlow 2.12, 2.18 and 2.21, which raise InvalidArgumentError.
_XLA = "Detected unsupported operations when trying to compile graph"
# `EagerContext::SelectDevice` (eager/context.cc), of functions, and of their nodes
# (colocation_graph.cc).
_NO_DEVICE = (
    "Could not satisfy device specification",
    "Unable to find any devices for spec",
    "Cannot assign a device for operation",
)
# Of such, Python warns when it parses an invalid one. To put its filters of warnings off meanwhile
# would make it forget what it has warned of, and the program's other threads share them.
_ESCAPE = re.compile(r"\\(?:N\{[^}\n]*\}|[^{}\n]|(?=[{}]))")
_TRY = (ast.Try, getattr(ast, "TryStar", ast.Try))  # `except*`, since Python 3.11
_CONTEXT_METHODS = (  # what `tf.config` calls (python/framework/config.py)
    "set_visible_devices",
    "set_memory_growth",
    "set_logical_device_configuration",
)
_CONTEXT_PROPERTIES = (
    "intra_op_parallelism_threads",
    "inter_op_parallelism_threads",
    "soft_device_placement",
)


class ErrorRecorder(Part):
    """Journals errors when they are raised; see the module."""

    def __init__(self, journal: Journal) -> None:
        super().__init__()
        self._journal = journal
        self._count = 0

    def install(self) -> None:
        """Replace what raises."""
        from tensorflow.python.eager import context
        from tensorflow.python.framework import errors_impl

        for error, kinds in (
            (errors_impl.ResourceExhaustedError, {"": "resource_exhausted"}),
            (
                errors_impl.InvalidArgumentError,
                {_XLA: "xla_unsupported", **dict.fromkeys(_NO_DEVICE, "no_device")},
            ),
        ):
            self.after(error, "__init__", partial(self._made, kinds))
        for name in _CONTEXT_METHODS:
            method = getattr(context.Context, name, None)
            if method is not None:
                self.replace(context.Context, name, self._watched(method, name))
        for name in _CONTEXT_PROPERTIES:
            found = getattr(context.Context, name, None)
            if isinstance(found, property) and found.fset is not None:
                setter = self._watched(found.fset, name)
                self.replace(context.Context, name, property(found.fget, setter, found.fdel))

    def _made(
        self, kinds: dict[str, str], _: None, error: BaseException, *__: Any, **___: Any
    ) -> None:
        """Note an error, if its text has in it what one of the kinds says."""
        message = str(getattr(error, "message", ""))  # `str(error)` can take long
        where = next((kind for said, kind in kinds.items() if said in message), None)
        if where is not None:
            self._record(where, error, None)

    def _watched(self, original: Callable[..., Any], name: str) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            with unseen:
                try:
                    return original(*args, **kwargs)
                except Exception as error:
                    self._record("tf.config", error, name)
                    raise

        return watched

    def _record(self, where: str, error: BaseException, call: str | None) -> None:
        self._count += 1
        if self._count > _MOST_ERRORS:
            self._journal.note(
                "errors_left_out", "info", f"only the first {_MOST_ERRORS} errors are recorded"
            )
            return
        try:
            running = list(_user_frames(sys._getframe(1)))
            self._journal.write(
                "error",
                where=where,
                type=type(error).__name__,
                message=_cut(str(error)),
                raised=[[*found, 1] for found in map(place, running) if found is not None],
                handler=_handler(running, type(error)),
                call=call,
            )
        except Exception as failure:
            self._journal.failed("an error", failure)


def journal_fatal(journal: Journal) -> None:
    """Journal the error that ends the program: Python keeps the one that it prints last."""
    error = getattr(sys, "last_value", None)
    if not isinstance(error, Exception):
        return
    raised = list(_lines_of(error.__traceback__))
    journal.write(
        "error",
        where="program",
        type=type(error).__name__,
        message=_cut(str(error)),
        raised=raised[::-1],
        handler=None,
        call=None,
    )


def _lines_of(traceback: TracebackType | None) -> Iterator[list[Any]]:
    """Walk the user's lines of a traceback, outermost first."""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if is_user_file(code.co_filename) and GENERATED not in code.co_filename:
            yield [code.co_filename, traceback.tb_lineno, code.co_name, 1]
        traceback = traceback.tb_next


def _cut(message: str) -> str:
    if len(message) <= _FIRST + _LAST:
        return message
    return f"{message[:_FIRST]} ... {message[-_LAST:]}"


def _user_frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def _handler(running: list[FrameType], error: type) -> list[Any] | None:
    """Return where the error will be caught: file, line of the `except`, name of the code."""
    for frame in running:
        found = place(frame)
        if found is None:
            continue
        file, line, name = found
        code = frame.f_code
        first = code.co_firstlineno if file == code.co_filename else 0
        for handler in _handlers_around(file, first, line):
            if _catches(handler.type, frame, error):
                return [file, handler.lineno, name]
    return None


_trees: dict[str, ast.AST | None] = {}


def _handlers_around(file: str, first: int, line: int) -> list[ast.ExceptHandler]:
    """Return the handlers around a line of a function that begins at line `first`, innermost first.

    A `try` around the function's own definition guards that, and not what the function does.
    """
    if file not in _trees:
        try:
            _trees[file] = ast.parse(_without_escapes("".join(linecache.getlines(file))))
        except (SyntaxError, ValueError):
            _trees[file] = None
    tree = _trees[file]
    if tree is None:
        return []
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, _TRY)
        and first <= node.lineno
        and node.body[0].lineno <= line <= _end(node.body[-1])
    ]
    around.sort(key=lambda node: node.lineno, reverse=True)
    return [handler for node in around for handler in node.handlers]


def _without_escapes(source: str) -> str:
    """Return a source with what is harmless in place of escapes; nothing else moves."""
    return _ESCAPE.sub(lambda escape: "_" * len(escape[0]), source)


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _catches(named: ast.expr | None, frame: FrameType, error: type) -> bool:
    """Return whether `except NAMED` catches an error; names are looked up, nothing is run."""
    if named is None:
        return True
    if isinstance(named, ast.Tuple):
        return any(_catches(part, frame, error) for part in named.elts)
    found = _look_up(named, frame)
    if isinstance(found, tuple):
        return any(isinstance(c, type) and issubclass(error, c) for c in found)
    return isinstance(found, type) and issubclass(error, found)


def _look_up(node: ast.expr, frame: FrameType) -> Any:
    if isinstance(node, ast.Attribute):
        return getattr(_look_up(node.value, frame), node.attr, None)
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals, vars(builtins)):
            if node.id in names:
                return names[node.id]
    return None

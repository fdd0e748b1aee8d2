"""Errors that explain a placement: out of memory, XLA errors, nonexistent devices.

A program may catch such an error and continue on the CPU. So the line that raised it is recorded,
and the handler that will catch it: in the source of the running functions, the innermost `try`
around a running line whose `except` names the error's class. The error that ends the program is
recorded, whatever its class.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import re
import sys
from functools import lru_cache, partial
from types import FrameType
from typing import Any

from .frames import GENERATED, Frame, is_user_file, outwards, place_of, user_places
from .hooks import Journal, Part

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


class ErrorRecorder(Part):
    def __init__(self, journal: Journal) -> None:
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
        """Record an error if its text contains a pattern of one of the kinds."""
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


def journal_fatal(journal: Journal) -> None:
    """Journal the error that ends the program, which Python keeps to print it."""
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
    journal: Journal, where: str, error: BaseException, raised: list[Frame], handler: Any
) -> None:
    message = str(error)
    if len(message) > _FIRST + _LAST:
        message = f"{message[:_FIRST]} ... {message[-_LAST:]}"
    found = {"type": type(error).__name__, "message": message, "raised": raised}
    journal.write("error", where=where, **found, handler=handler)


def _handler(innermost: FrameType, error: type) -> tuple[str, int, str] | None:
    """Return the file, line and code name of the `except` that will catch an error."""
    for frame in outwards(innermost):
        code = frame.f_code
        found = place_of(frame) if is_user_file(code.co_filename) else None
        if found is None:
            continue
        file, line, name = found
        # A `try` around a function's definition does not catch errors of its calls.
        first = code.co_firstlineno if file == code.co_filename else 0
        for node in _tries(file):
            is_inside = node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0)
            if is_inside and first <= node.lineno:
                for handler in node.handlers:
                    if _catches(handler.type, frame, error):
                        return file, handler.lineno, name
    return None


@lru_cache(maxsize=None)
def _tries(file: str) -> list[ast.Try]:
    """Return the `try` statements of a file, inner ones first; none if it cannot be read."""
    source = "".join(linecache.getlines(file))
    try:  # with harmless text in place of escapes, so that positions stay
        tree = ast.parse(_ESCAPE.sub(lambda escape: "_" * len(escape[0]), source))
    except (SyntaxError, ValueError):
        return []
    found = [node for node in ast.walk(tree) if isinstance(node, _TRY)]
    return sorted(found, key=lambda node: node.lineno, reverse=True)


def _catches(named: ast.expr | None, frame: FrameType, error: type) -> bool:
    """Return whether `except NAMED` catches an error; names are looked up, nothing is run."""
    if named is None:
        return True
    if isinstance(named, ast.Tuple):
        return any(_catches(part, frame, error) for part in named.elts)
    found = _look_up(named, frame)
    classes = found if isinstance(found, tuple) else (found,)
    return any(isinstance(each, type) and issubclass(error, each) for each in classes)


def _look_up(node: ast.expr, frame: FrameType) -> Any:
    if isinstance(node, ast.Attribute):
        return getattr(_look_up(node.value, frame), node.attr, None)
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals, vars(builtins)):
            if node.id in names:
                return names[node.id]
    return None

"""Errors that explain a placement: out of memory, XLA errors, nonexistent devices.

A program may catch such an error and continue on the CPU. So the running lines and the error's
classes are recorded, which show the handler that will catch it. The error that ends the program is
recorded, whatever its class.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from .frames import GENERATED, Frame, is_user_file, user_places
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
            classes = [each.__name__ for each in type(error).__mro__]
            _write(self._journal, where, error, user_places(sys._getframe(1)), classes)


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
    _write(journal, "program", error, raised, [])  # nothing caught it


def _write(
    journal: JournalWriter,
    where: str,
    error: BaseException,
    raised: list[Frame],
    classes: list[str],
) -> None:
    message = str(error)
    if len(message) > _FIRST + _LAST:
        message = f"{message[:_FIRST]} ... {message[-_LAST:]}"
    found = {"type": type(error).__name__, "message": message, "raised": raised}
    journal.write("error", where=where, **found, classes=classes)

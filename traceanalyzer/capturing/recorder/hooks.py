"""The journal, and hooks that replace TensorFlow functions without the program noticing.

An error of the program that passes through our code must have its usual traceback, so our frames
are removed before it is raised again. Before Python 3.11, `raise` restores one of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, Iterator, Sequence

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class JournalWriter:
    """Appends JSON records to a file, one per line. They survive if the program is killed.

    Any thread may use it. It never raises, and writes nothing in a forked child.
    """

    def __init__(self, path: str) -> None:
        self.started_ns = time.time_ns()
        self._path = path
        # A signal handler may write while its thread is writing.
        self._lock = threading.RLock()
        self._noted: set[str] = set()
        self._is_cut = False  # whether a full disk cut the last line off
        self._process = os.getpid()

    def write(self, kind: str, **fields: Any) -> None:
        """Append a record; values that JSON cannot express are written as text."""
        if os.getpid() != self._process:
            return
        try:
            line = json.dumps({"kind": kind, **fields}, default=str, separators=(",", ":"))
            data = line.encode("utf-8", "backslashreplace") + b"\n"
            with self._lock, open(self._path, "ab", buffering=0) as file:
                whole = b"\n" + data if self._is_cut else data
                self._is_cut = file.write(whole) < len(whole)
        except Exception:  # noqa: S110 - a full disk costs evidence, not the program
            pass

    def note(self, id: str, severity: str, message: str) -> None:  # noqa: A002 - as in health
        """Record a message about missing data for the report's `health`, but only once."""
        if id not in self._noted:
            self._noted.add(id)
            self.write("note", id=id, severity=severity, message=message)

    @contextlib.contextmanager
    def guard(self, what: str) -> Iterator[None]:
        """Catch and record an error that the recorder raises in a block; see `failed`."""
        try:
            yield
        except Exception as error:
            self.failed(what, error)

    def failed(self, what: str, error: BaseException) -> None:
        """Record that a part of the recorder raised an error.

        If the program's signal handler raised the error while our code ran, raise it again.
        """
        if not _is_ours(error):
            raise error
        reason = f"{type(error).__name__}: {error}"
        self.note(f"recorder_failed:{what}", "warning", f"could not record {what}: {reason[:300]}")


def _is_ours(error: BaseException) -> bool:
    from .frames import is_user_file

    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    known = ("builtins", "tensorflow", "google.protobuf", str(__package__))
    is_in_users_file = traceback is not None and is_user_file(traceback.tb_frame.f_code.co_filename)
    return type(error).__module__.startswith(known) and not is_in_users_file


class RecorderPart:
    """A part of the recorder that replaces functions while it is installed."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def install(self) -> None:
        raise NotImplementedError

    def uninstall(self) -> None:
        while self._undo:
            setattr(*self._undo.pop())

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of a module or class until `uninstall`."""
        self._undo.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def before(self, owner: Any, name: str, first: Callable[..., None]) -> None:
        self.replace(owner, name, preceded(getattr(owner, name), first))

    def after(self, owner: Any, name: str, then: Callable[..., Any]) -> None:
        self.replace(owner, name, followed(getattr(owner, name), then))


def preceded(original: Callable[..., Any], first: Callable[..., None]) -> Callable[..., Any]:
    """Return a function that calls `first` with its arguments, and then the original."""

    def call(*args: Any, **kwargs: Any) -> Any:
        first(*args, **kwargs)
        try:  # rather than `with unseen`, which takes longer
            return original(*args, **kwargs)
        except BaseException as error:
            hide_frame(error)
            raise

    return call


def followed(original: Callable[..., Any], then: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls the original and returns `then(result, *args, **kwargs)`."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            hide_frame(error)
            raise
        return then(result, *args, **kwargs)

    return call


def hide_frame(error: BaseException) -> None:
    """Remove the catching frame from an error's traceback. A bare `raise` must follow."""
    caught = error.__traceback__
    error.__traceback__ = caught.tb_next if caught is not None else None


class _Unseen:
    """A context manager that removes its own frame from the tracebacks of errors."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            hide_frame(error)


unseen = _Unseen()


def loaded(name: str) -> Any:
    """Return an imported module of TensorFlow, or raise ImportError.

    If a program has removed TensorFlow from `sys.modules`, importing it again would end the process
    (`PyExceptionRegistry::Init() already called`).
    """
    module = sys.modules.get(name)
    if module is None or "tensorflow" not in sys.modules:
        message = f"{name} is no longer imported"
        raise ImportError(message)
    return module


def watch_import(
    name: str, after: Callable[[], None], before: Callable[[], None] = lambda: None
) -> None:
    """Call `before` and `after` around the import of a module, or now if it is already imported.

    `after` is only called if the import succeeds. Neither is called in a fork.
    """
    if name in sys.modules:
        before()
        after()
        return
    finder = _Finder(name, before, after)
    sys.meta_path.insert(0, finder)
    os.register_at_fork(after_in_child=finder.leave)


class _Finder:
    """Reports the import of one module; other finders find the module.

    The loader reports the import, because programs may request a spec long before they import it.
    This class has no base class: `importlib.abc` would import a dozen modules before the program
    can put modules of these names on its path.
    """

    def __init__(self, name: str, before: Callable[[], None], after: Callable[[], None]) -> None:
        self._name = name
        self._before: Callable[[], None] | None = before
        self._after = after

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        others = [f for f in sys.meta_path if f is not self and hasattr(f, "find_spec")]
        found = (other.find_spec(fullname, path, target) for other in others)
        spec = next((each for each in found if each is not None), None)
        loader: Any = spec and spec.loader
        if hasattr(loader, "exec_module"):
            loader.exec_module = partial(self._execute, loader)
        return spec

    def leave(self) -> None:
        self._before = None
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def _execute(self, loader: Any, module: ModuleType) -> None:
        del loader.exec_module  # this one: its class has the original
        before, self._before = self._before, None
        if before is not None:
            before()
        with unseen:
            loader.exec_module(module)
        if self in sys.meta_path:
            self.leave()
            self._after()

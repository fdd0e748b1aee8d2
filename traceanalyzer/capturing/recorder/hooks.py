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
from typing import TYPE_CHECKING, Any, Callable, Iterator

_LOADER: Any = sys.modules["_frozen_importlib_external"].SourceFileLoader
_METHOD = "exec_module"

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
        self._undo: list[Callable[[], None]] = []

    def install(self) -> None:
        raise NotImplementedError

    def uninstall(self) -> None:
        while self._undo:
            self._undo.pop()()

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute of a module or class until `uninstall`."""
        self._undo.append(partial(setattr, owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    def when_imported(self, name: str, then: Callable[[], None]) -> None:
        """Call a function after the import of a module, unless `uninstall` is first."""
        self._undo.append(watch_import(name, then))

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

    return _like(call, original)


def followed(original: Callable[..., Any], then: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls the original and returns `then(result, *args, **kwargs)`."""

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            result = original(*args, **kwargs)
        except BaseException as error:
            hide_frame(error)
            raise
        return then(result, *args, **kwargs)

    return _like(call, original)


def _like(call: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """Give a hook the name and the signature of the function that it replaces.

    TensorFlow reads signatures: AutoGraph raises an error of another class if the constructor of
    the error's own does not take `node_def`, `op`, and `message` (autograph/impl/api.py).
    """
    named: Any = call
    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        with contextlib.suppress(AttributeError, TypeError):
            setattr(named, name, getattr(original, name))
    inspect: Any = sys.modules.get("inspect")  # which nobody can use who has not imported it
    if inspect is not None:
        with contextlib.suppress(TypeError, ValueError):
            named.__signature__ = inspect.signature(original)
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
) -> Callable[[], None]:
    """Call `before` and `after` around the import of a module, or now if it is already imported.

    `after` is only called if the import succeeds. Neither is called in a fork, nor once the
    returned function was called.
    """
    if name in sys.modules:
        before()
        after()
        return lambda: None
    watch = _Watch(name, before, after)
    sys.meta_path.insert(0, watch)
    os.register_at_fork(after_in_child=watch.leave)
    return watch.leave


class _Watch:
    """Reports the import of one module.

    Other tools hook imports, too. They must find the loaders, specs, and finders that they would
    find without us. So this is a descriptor in place of the method by which Python's loader of
    source files executes a module, which nearly all hooks call in the end.

    It is also a finder that never finds anything, but sees that the module is being executed by
    a loader of another kind, because the module imports others.

    This class has no base class: `importlib.abc` would import a dozen modules before the program
    can put modules of these names on its path.
    """

    def __init__(self, name: str, before: Callable[[], None], after: Callable[[], None]) -> None:
        self._name = name
        self._before: Callable[[], None] | None = before
        self._after: Callable[[], None] | None = after
        self._is_executing = False
        self._awaited: ModuleSpec | None = None
        previous: Any = vars(_LOADER).get(_METHOD)
        self._previous = previous
        self._original = getattr(_LOADER, _METHOD) if previous is None else previous
        setattr(_LOADER, _METHOD, self)

    def leave(self) -> None:
        """Report nothing more."""
        self._before = self._after = None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        outer: Any = None
        each: Any = vars(_LOADER).get(_METHOD)
        while each is not self:
            if not isinstance(each, _Watch):
                return  # another tool has replaced the method, or this has left before
            outer, each = each, each._previous
        if outer is not None:
            outer._previous, outer._original = self._previous, self._original
        elif self._previous is None:
            delattr(_LOADER, _METHOD)
        else:
            setattr(_LOADER, _METHOD, self._previous)

    def __get__(self, loader: Any, kind: type) -> Callable[[ModuleType], None]:
        execute: Callable[[ModuleType], None] = self._original.__get__(loader, kind)
        is_ours = self._after is not None and getattr(loader, "name", None) == self._name
        return partial(self._execute, execute) if is_ours else execute

    def _execute(self, execute: Callable[[ModuleType], None], module: ModuleType) -> None:
        self._report_before()
        self._is_executing = True
        try:
            execute(module)
        except BaseException as error:
            hide_frame(error)
            raise
        finally:
            self._is_executing = False
        self._report_after()

    def find_spec(self, *_: Any, **__: Any) -> None:
        """Report an import that the descriptor did not see."""
        spec = getattr(sys.modules.get(self._name), "__spec__", None)
        if spec is None or self._is_executing:
            return
        self._report_before()
        if not getattr(spec, "_initializing", False):
            self._report_after()
        elif spec is not self._awaited:
            self._awaited = spec
            _when_initialized(spec, partial(self._initialized, spec))

    def _initialized(self, spec: ModuleSpec) -> None:
        if getattr(sys.modules.get(self._name), "__spec__", None) is spec:  # it did not fail
            self._report_after()

    def _report_before(self) -> None:
        before, self._before = self._before, None
        if before is not None:
            before()

    def _report_after(self) -> None:
        after = self._after
        self.leave()
        if after is not None:
            after()


def _when_initialized(spec: ModuleSpec, then: Callable[[], None]) -> None:
    """Call a function when Python has executed the module of a spec, or has failed to."""
    kind: Any = type(spec)

    def set_attribute(self: ModuleSpec, name: str, value: Any) -> None:
        kind.__setattr__(self, name, value)
        if name == "_initializing" and not value:
            self.__class__ = kind
            then()

    spec.__class__ = type(kind.__name__, (kind,), {"__setattr__": set_attribute})

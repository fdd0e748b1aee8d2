"""Records functions that were traced before the recorder was installed.

TensorFlow has instantiated them, and dumps the graphs of a function only then. So the recorder
calls each of them once more, with the arguments of the program's own call, but with an executor
that does not exist. TensorFlow keeps an instance for each executor (`Canonicalize`,
common_runtime/function.cc): it makes a new one, dumps its graphs, and fails before it runs an op,
because it looks the executor up when it is about to create the kernels (`CreateItem`). Nothing that
the program has made changes: neither its kernels nor the state in them.

What XLA compiles has no executor, and would run. Such functions are left out, and everything if a
probe shows that TensorFlow ignores the executor.
"""

from __future__ import annotations

import gc
import itertools
import sys
import threading
import time
import weakref
from contextlib import suppress
from typing import Any, Callable

from .attributes import text
from .dumps import Dumps
from .hooks import JournalWriter, loaded

_ATOMIC = "tensorflow.python.eager.polymorphic_function.atomic_function"
_MOST_FUNCTIONS = 500
_MOST_BYTES = 256 << 20  # of definitions: TensorFlow keeps the instances
_MOST_S = 5.0
_XLA = "xla"  # in the names of all attributes that request it
_PROBE = "__traceanalyzer_probe"
_EVENT = "traceanalyzer:instantiation"
_numbers = itertools.count()


class Spent:
    """What the instances of all captures of a process cost: TensorFlow keeps them."""

    def __init__(self) -> None:
        # Executors of the instances, by their names with devices and attributes.
        self.made: dict[tuple[Any, ...], str] = {}
        self.bytes = 0
        self.seconds = 0.0

    def is_all(self) -> bool:
        return len(self.made) >= _MOST_FUNCTIONS or self.seconds >= _MOST_S


spent = Spent()


class EarlierFunctions:
    """The functions that were live when the recorder was installed.

    `describe(name, graph)` records a function's definition when the program calls it.
    """

    def __init__(
        self, journal: JournalWriter, dumps: Dumps, describe: Callable[[str, Any], None]
    ) -> None:
        self._journal = journal
        self._dumps = dumps
        self._describe = describe
        self._graphs: dict[str, Any] = {}  # weak references by name; absent once described
        self._children: dict[str, list[str]] = {}
        self._names: frozenset[str] = frozenset()
        self._executor = ""  # "" if graphs cannot be dumped
        self._execute: Any = None

    def find(self) -> list[str]:
        """Find the live functions, and return their names."""
        context = loaded("tensorflow.python.eager.context")._context
        atomic = getattr(sys.modules.get(_ATOMIC), "AtomicFunction", None)
        if context is None or context._context_handle is None or atomic is None:
            return []  # nothing can have been traced
        for each in [found for found in gc.get_objects() if type(found) is atomic]:
            with suppress(Exception):
                name, graph = text(each.name), each._cached_graph
                self._children.setdefault(name, [text(child.name) for child in each.children])
                if graph is not None:
                    self._graphs[name] = weakref.ref(graph)
        self._names = frozenset(self._children)
        self._execute = loaded("tensorflow.python.pywrap_tfe").TFE_Py_Execute
        is_alone = context._server_def is None and context._collective_ops_server_def is None
        if self._names and self._dumps.are_on and is_alone and not context.is_async():
            executor = f"traceanalyzer_{next(_numbers)}_{time.time_ns()}"
            if self._is_refused(context, executor):
                self._executor = executor
        return list(self._names)

    def describe(self, name: str) -> None:
        """Record the definitions of an earlier function and of those that it calls."""
        waiting = [name]
        while waiting:
            each = waiting.pop()
            waiting += self._children.pop(each, ())
            graph = self._graphs.pop(each, lambda: None)()
            if graph is not None:
                self._describe(each, graph)

    def instantiate(self, args: tuple[Any, ...]) -> None:
        """Dump the graphs of an earlier function, given the arguments of `TFE_Py_Execute`."""
        name = text(args[2])
        if name not in self._names:
            return
        with self._journal.guard("the graphs of a function"):
            self.describe(name)
            context = loaded("tensorflow.python.eager.context").context()
            if not self._dumps.are_on:
                return
            key = (name, text(args[1]), *map(repr, args[4] or ()))
            if key in spent.made:
                if spent.made[key] != self._executor:
                    self._dumps.are_in_another_capture()
                return
            if not self._executor or context.is_async() or spent.is_all():
                self._dumps.are_missing()
                return
            began = time.monotonic()
            definition = context.get_function_def(name)
            given = list(args[4] or ())
            if _is_compiled(definition, args[1], given):
                return
            size = definition.ByteSize()
            if spent.bytes + size > _MOST_BYTES:
                self._dumps.are_missing()
                return
            spent.made[key] = self._executor
            spent.bytes += size
            outputs = len(definition.signature.output_arg)
            words = [*args[:4], _with_executor(given, self._executor), outputs]
            _aside(lambda: self._fails(words))
            spent.seconds += time.monotonic() - began

    def _is_refused(self, context: Any, executor: str) -> bool:
        """Return whether TensorFlow refuses to run a function with this executor."""
        from tensorflow.core.framework import function_pb2

        probe = function_pb2.FunctionDef()
        probe.signature.name = _PROBE
        probe.signature.output_arg.add(name="out", type=1)
        node = probe.node_def.add(name="value", op="Const")
        node.attr["dtype"].type = 1
        node.attr["value"].tensor.dtype = 1
        node.attr["value"].tensor.float_val.append(0)
        node.attr["value"].tensor.tensor_shape.SetInParent()
        probe.ret["out"] = "value:output:0"
        context.add_function_def(probe)
        try:
            words = [context._handle, None, _PROBE, [], _with_executor([], executor), 1]
            return _aside(lambda: self._fails(words))
        finally:
            context.remove_function(_PROBE)

    def _fails(self, words: list[Any]) -> bool:
        """Run a call that must fail for lack of its executor; return whether it did."""
        try:
            self._execute(*words)
        except Exception as error:
            return "executor" in str(error)
        return False


def _with_executor(given: list[Any], executor: str) -> tuple[Any, ...]:
    """Return the attributes of a call, names and values in turn, with another executor."""
    pairs = list(zip(given[::2], given[1::2]))
    kept = [pair for pair in pairs if text(pair[0]) != "executor_type"]
    return tuple(itertools.chain(("executor_type", executor), *kept))


def _is_compiled(definition: Any, device: Any, given: list[Any]) -> bool:
    """Return whether XLA might compile a call, which then runs without an executor."""
    names = [*definition.attr, *(text(name) for name in given[::2])]
    return any(_XLA in each.lower() for each in names) or any(
        kind in text(device or "").upper() for kind in ("XLA", "TPU")
    )


def _aside(work: Callable[[], bool]) -> bool:
    """Run something on a thread of its own, as preparation in the trace."""
    traceme = loaded("tensorflow.python.profiler.internal._pywrap_traceme").TraceMe
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(work()), name="traceanalyzer-graphs")
    event = traceme(_EVENT)
    try:
        thread.start()
        thread.join()
    finally:
        event.Stop()
    return found == [True]

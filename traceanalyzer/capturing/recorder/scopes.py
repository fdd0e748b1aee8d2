"""Records the line that opened the device scope of an op, and the origin of that device.

TensorFlow records the device of a scope, but no line of the program: for graphs, it records a line
of its own code (2.12 and 2.21). So this module records the line when a scope is entered.
"""

from __future__ import annotations

import importlib
import sys
import threading
from types import FrameType
from typing import Any, Callable

from .frames import GENERATED, FramePool
from .hooks import RecorderPart, hide_frame, loaded
from .origins import MACHINE, Locations, Origins, Scope

_MARK = "_traceanalyzer_frame"
_ORIGIN = "_traceanalyzer_origin"
# Frames between the caller's `with` and the functions replaced here.
_MACHINERY = (
    *("/tensorflow/python/framework/ops.py", "/tensorflow/python/framework/func_graph.py"),
    *("/tensorflow/python/util/tf_contextlib.py", "/tensorflow/python/util/tf_stack.py"),
    *("/tensorflow/python/eager/context.py", "/contextlib.py"),
    *("/recorder/scopes.py", "/recorder/hooks.py"),
)
_NO_SCOPE = 0
_MOST_CHAINS = 10_000
_MOST_SCOPES = 10  # scopes around one op


class _ThreadScopes(threading.local):
    frame = -1  # number of the line that opened the innermost eager scope, -1 for none
    # Number of the chain of nested eager scopes; below zero, only the innermost scope is known.
    chain = _NO_SCOPE

    def __init__(self) -> None:
        self.stack: list[tuple[int, int]] = []  # both numbers of each outer scope


class Scopes(RecorderPart):
    """Records the lines that open device scopes, in eager code and in graphs."""

    def __init__(self, frames: FramePool, origins: Origins) -> None:
        super().__init__()
        self.local = _ThreadScopes()
        self.origins = origins
        self._frames = frames
        # The number of each chain's outer chain, and its innermost scope.
        self._chains: list[tuple[int, Scope]] = [(-1, ("", -1, None))]
        self._number_of: dict[tuple[int, Scope], int] = {}
        self._origin_of: dict[int, int | None] = {}  # of constants, by chain
        self._lock = threading.Lock()

    def install(self) -> None:
        from tensorflow.python.eager import context
        from tensorflow.python.framework import ops

        eager, graph = context._EagerDeviceContext, ops.Graph
        self.replace(eager, "__enter__", self._enter(eager.__enter__))
        self.before(eager, "__exit__", self._left)
        self.after(graph, "_add_device_to_stack", self._added)
        self.after(graph, "_snapshot_device_function_stack_metadata", self._snapshot)
        constants = importlib.import_module("tensorflow.python.framework.constant_op")
        convert = self._convert(constants.convert_to_eager_tensor)
        self.replace(constants, "convert_to_eager_tensor", convert)

    def opened(self) -> list[Scope]:
        """Return the open scopes of this thread, innermost first; "" cancels the outer scopes."""
        found: list[Scope] = []
        at = self.local.chain
        while at > _NO_SCOPE and len(found) < _MOST_SCOPES:
            at, scope = self._chains[at]
            found.append(scope)
        return found

    def _enter(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        local, opened, chain, origin_of = self.local, self._opened, self._chain, self.origins.of

        def enter(scope: Any) -> Any:
            context = scope._ctx
            before = context.device_name
            try:  # rather than `with unseen`: each step of Keras opens several
                result = original(scope)
            except BaseException as error:
                hide_frame(error)
                raise
            local.stack.append((local.frame, local.chain))
            caller = sys._getframe(1)
            passed_on = _passed_on(caller)
            local.frame = opened(caller) if passed_on < 0 else passed_on
            requested = scope._device_name
            origin = origin_of(requested, local.frame)
            if requested is not None and not before:
                requested = context.device_name  # completed by TensorFlow
            if requested != "":
                local.chain = chain(local.chain, (requested or "", local.frame, origin))
            return result

        return enter

    def _left(self, *_: Any) -> None:
        local = self.local
        local.frame, local.chain = local.stack.pop() if local.stack else (-1, _NO_SCOPE)

    def _chain(self, around: int, scope: Scope) -> int:
        key = (around, scope)
        number = self._number_of.get(key)
        if number is None and around >= _NO_SCOPE:
            with self._lock:
                if len(self._chains) < _MOST_CHAINS:
                    number = self._number_of.setdefault(key, len(self._chains))
                    if number == len(self._chains):
                        self._chains.append(key)
        return -2 - scope[1] if number is None else number

    def _opened(self, frame: FrameType | None) -> int:
        while frame is not None and frame.f_code.co_filename.endswith(_MACHINERY):
            frame = frame.f_back
        return self._frames.add_frame(frame)

    def _added(self, spec: Any, *_: Any, **__: Any) -> Any:
        if spec is not None:  # it was put on the stack
            frame = self._opened_in_graph()
            setattr(spec, _MARK, frame)
            requested = getattr(spec, "_device_name_or_function", None)
            setattr(spec, _ORIGIN, self.origins.of(requested, frame))
        return spec

    def _opened_in_graph(self) -> int:
        # This stack has AutoGraph's lines mapped back to the source.
        stack = loaded("tensorflow.python.util.tf_stack").extract_stack()
        for k in range(len(stack) - 1, -1, -1):
            frame = stack[k]
            if GENERATED not in frame.filename and not frame.filename.endswith(_MACHINERY):
                return self._frames.add(frame.filename, frame.lineno, frame.name)
        return -1

    @staticmethod
    def _snapshot(found: Any, graph: Any) -> Any:
        if not found:
            return found
        result = Locations(found)
        result.frames = tuple(
            (str(spec.display_name), getattr(spec, _MARK, -1), getattr(spec, _ORIGIN, None))
            for spec in graph._device_function_stack.peek_objs()
        )
        return result

    def _convert(self, original: Callable[..., Any]) -> Callable[..., Any]:
        local, origin_of = self.local, self._origin_of

        # Faster than `followed`: every number in eager code is converted here.
        def convert(value: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                result = original(value, *args, **kwargs)
            except BaseException as error:
                hide_frame(error)
                raise
            if result is not value:
                chain = local.chain
                if chain not in origin_of:
                    scopes = self.opened()
                    named = (s[2] for s in scopes if s[2] is not None or "cpu" in s[0].lower())
                    origin_of[chain] = next(named, MACHINE)
                result._traceanalyzer_origin = origin_of[chain]
            return result

        return convert


def _passed_on(frame: FrameType) -> int:
    """Return the frame number of the graph scope that `init_scope` reopens; -1 for other frames.

    `init_scope` (python/framework/ops.py) leaves the graph that is being built, and reopens its
    scope. A variable created there belongs to the program's scope, not to one of TensorFlow's.
    """
    if frame.f_code.co_name != "init_scope" or not frame.f_code.co_filename.endswith(_MACHINERY):
        return -1
    found = getattr(frame.f_locals.get("device_spec"), _MARK, -1)
    return found if isinstance(found, int) else -1

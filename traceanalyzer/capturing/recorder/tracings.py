"""Records for which arguments TensorFlow traced each Python function.

TensorFlow traces a function again if an argument has another Python value, shape, dtype, or object.
The records show which argument differs from the trace before. Of a function that is traced very
often, only some pairs of successive traces are recorded.
"""

from __future__ import annotations

import re
import sys
import weakref
from types import FrameType, FunctionType, MethodType
from typing import Any, Callable, Iterator

from .frames import FramePool, outwards, user_frame
from .hooks import JournalWriter, loaded

_NAME = re.compile(r"__inference_(?!_)(.+)_\d+")
_OF_FUNCTION = "polymorphic_function.py"  # its methods have the `tf.function` as `self`
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_MOST_OF_ONE = 100  # successive traces of a function
_MOST = 2_000
_MOST_FRAMES = 60  # from the place where a graph is made to the call of its function
_MOST_PARTS = 16  # of a nested argument
_DEEPEST = 3
_LONGEST = 120  # text of an argument


class TracingRecorder:
    def __init__(self, journal: JournalWriter, frames: FramePool) -> None:
        self._journal = journal
        self._frames = frames
        self._objects: Any = weakref.WeakKeyDictionary()  # numbers of `tf.function` objects
        self._made = 0  # of these objects
        self._counts: dict[tuple[str, int, str], int] = {}  # traces, by place of the code
        self._written = 0
        self._left_out = 0

    def traced(self, name: str, graph: Any, function_type: Any) -> None:
        """Record a trace, if the graph is that of a Python function and not made from another."""
        found = _NAME.fullmatch(name)
        signature = getattr(graph, "structured_input_signature", None)
        if found is None or signature is None:
            return
        function = _function_of(sys._getframe(1), found[1])
        code = None if function is None else _code_of(function)
        if code is None:
            return
        place = (code.co_filename, code.co_firstlineno, found[1])
        number = self._counts[place] = self._counts.get(place, 0) + 1
        is_chosen = number <= _MOST_OF_ONE or number % _MOST_OF_ONE < 2  # noqa: PLR2004 - a pair
        if not is_chosen or self._written >= _MOST:
            self._left_out += 1
            return
        self._written += 1
        frame = self._frames.add_frame(user_frame(sys._getframe(1)))
        self._frames.write()
        names = _names(function_type, code)
        self._journal.write(
            "tracing",
            name=name,
            number=number,
            object=self._number_of(function),
            code=found[1],
            file=place[0],
            line=place[1],
            frame=frame,
            arguments=[*_arguments(signature, names, function_type)],
        )

    def finish(self) -> None:
        if self._left_out:
            total = self._left_out + self._written
            said = f"of {total:,} traces of functions, {self._left_out:,} are not recorded"
            self._journal.note("tracings_left_out", "info", said)

    def _number_of(self, function: Any) -> int:
        number: int | None = self._objects.get(function)
        if number is None:
            number = self._objects[function] = self._made
            self._made += 1
        return number


def _function_of(frame: FrameType, name: str) -> Any:
    """Return the `tf.function` of this name that is being traced, or None."""
    for each, _ in zip(outwards(frame), range(_MOST_FRAMES)):
        if each.f_code.co_filename.endswith(_OF_FUNCTION):
            own = each.f_locals.get("self")
            if getattr(own, "python_function", None) is not None:
                # Reading a name from the program's own object might run its `__getattr__`.
                return own if getattr(own, "_name", "") == name else None
    return None


def _code_of(function: Any) -> Any:
    if not isinstance(function.python_function, (FunctionType, MethodType)):
        return None
    unwrap: Callable[[Any], Any] = loaded("tensorflow.python.util.tf_decorator").unwrap
    _, target = unwrap(function.python_function)
    inner = target.__func__ if isinstance(target, MethodType) else target
    return inner.__code__ if isinstance(inner, FunctionType) else None


def _names(function_type: Any, code: Any) -> list[str]:
    """Return the names of the positional parameters."""
    parameters = getattr(function_type, "parameters", None)
    if parameters is not None:
        return [*parameters]
    return list(code.co_varnames[: code.co_argcount])  # 2.12


def _arguments(signature: Any, names: list[str], function_type: Any) -> Iterator[dict[str, str]]:
    positional, named = signature
    if len(names) > len(positional) and names[:1] == ["self"]:
        names = names[1:]
    names = [*names, *(f"argument {k + 1}" for k in range(len(names), len(positional)))]
    constraints = getattr(function_type, "parameters", {})
    for name, value in [*zip(names, positional), *named.items()]:
        kind, text = _described(value)
        if kind == "object":
            # The signature does not show objects, but the function's type refers to them.
            refers = getattr(getattr(constraints.get(name), "type_constraint", None), "_ref", None)
            one = refers() if isinstance(refers, weakref.ref) else None
            text = text if one is None else f"{type(one).__name__} object {id(one):x}"
        yield {"name": name, "kind": kind, "text": text[:_LONGEST]}


def _described(value: Any, depth: int = 0) -> tuple[str, str]:
    """Return the kind of an argument and its text, without running code of the program."""
    if type(value) in _PLAIN:
        return "value", repr(value)
    dtype: Any = getattr(value, "dtype", None)
    if type(value).__module__.startswith("tensorflow.") and hasattr(dtype, "name"):
        shape: Any = getattr(value, "shape", None)
        rank = None if shape is None else shape.rank
        sizes = "..." if rank is None else ",".join("?" if s is None else str(s) for s in shape)
        return "tensor", f"{dtype.name}[{sizes}]"
    if type(value) in (list, tuple, dict) and depth < _DEEPEST:
        values = value.values() if type(value) is dict else value
        parts = [_described(each, depth + 1) for each, _ in zip(values, range(_MOST_PARTS))]
        kinds = {kind for kind, _ in parts}
        kind = "object" if "object" in kinds else "tensor" if "tensor" in kinds else "value"
        return kind, f"({', '.join(text for _, text in parts)})"
    return "object", f"{type(value).__name__} object"

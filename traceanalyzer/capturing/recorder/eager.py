"""Records every eager op and every call of a function, in order.

TensorFlow's generated op functions run an eager op with `pywrap_tfe.TFE_Py_FastPathExecute`.
Calls of functions, and ops that the fast path cannot run, use `TFE_Py_Execute` or
`TFE_Py_ExecuteCancelable` (python/eager/execute.py). The recorder replaces all three. It records a
*signature*: op, attributes, dtypes, the requested device, and the line of the user's code. Each
distinct signature is described once; for each thread, only a sequence of signature numbers is kept.
This takes about 2 µs per op; TensorFlow's own op callbacks take about 100 µs.

Outside of sessions, only the modules that create resources are watched: the device of a resource
decides the device of every op that uses it.
"""

from __future__ import annotations

import sys
from array import array
from types import FrameType, ModuleType
from typing import Any, Callable, Mapping

from .attributes import RESOURCE, python_kind, text
from .dumps import Dumps
from .frames import known_files, user_frame
from .functions import FunctionRecorder
from .hooks import JournalWriter, RecorderPart, hide_frame, preceded, unseen
from .origins import note
from .scopes import Scopes
from .signatures import Sequences, Signatures

_OTHER, _TENSOR, _VARIABLE, _LIST, _ARRAY = 0, 1, 2, 3, 4
_PLAIN = (str, bytes, int, float, bool, type(None))
_MOST_OF_A_LIST = 8  # inputs of a list that are part of a key

# Modules with ops that create variables, tables, iterators, queues and the like.
_CREATING_MODULES = (
    *("gen_resource_variable_ops", "gen_lookup_ops", "gen_dataset_ops", "gen_data_flow_ops"),
    *("gen_experimental_dataset_ops", "gen_summary_ops", "gen_stateful_random_ops"),
)


class EagerRecorder(RecorderPart):
    def __init__(  # noqa: PLR0913, PLR0917
        self,
        journal: JournalWriter,
        signatures: Signatures,
        scopes: Scopes,
        before_call: Callable[[str, int], None],  # gets the function's name, the thread's number
        dumps: Dumps,  # the context of the first run of a signature
        functions: FunctionRecorder,
    ) -> None:
        super().__init__()
        self._journal = journal
        self._signatures = signatures
        self._types = signatures.types
        self._representative: Callable[[Any], Any] = signatures.representative
        self._scopes = scopes
        self._before_call = before_call
        self._dumps = dumps
        self._stand_in = functions.stand_in
        self._earlier = functions.earlier
        self._sequences = Sequences()
        self._functions: dict[str, tuple[int, ...]] = {}
        self._first_attribute: dict[str, int] = {}
        self._creates: dict[str, bool] = {}
        self._categories: dict[type, int] = {}
        self._proxies: list[ModuleType] = []
        self._counted = 0  # outside of sessions

    @property
    def eager_ops(self) -> int:
        """The number of eager ops and calls in the current session, or since the last one."""
        return self._sequences.count() if self._sequences.is_on else self._counted

    def install(self) -> None:
        from tensorflow.python import pywrap_tfe

        self._pywrap = pywrap_tfe
        self._original = pywrap_tfe.TFE_Py_FastPathExecute
        self._full = self._full_fast_path(self._original)
        self._light = self._light_fast_path(self._original, self._full)
        self._counting = preceded(self._light, self._count)
        for name in ("TFE_Py_Execute", "TFE_Py_ExecuteCancelable"):
            self.replace(pywrap_tfe, name, self._execute(getattr(pywrap_tfe, name)))
        self.replace(pywrap_tfe, "TFE_Py_FastPathExecute", self._original)
        for name in _CREATING_MODULES:
            module = sys.modules.get("tensorflow.python.ops." + name)
            if module is not None and getattr(module, "pywrap_tfe", None) is pywrap_tfe:
                proxy = ModuleType("tensorflow.python.pywrap_tfe")
                proxy.__dict__.update(vars(pywrap_tfe), TFE_Py_FastPathExecute=self._light)
                self.replace(module, "pywrap_tfe", proxy)
                self._proxies.append(proxy)

    def session_started(self, index: int) -> None:
        self._sequences.begin(index)
        self._set(self._full, self._full)

    def session_stopped(self) -> None:
        self._set(self._original, self._light)
        self._sequences.end()

    def count(self, *, on: bool) -> None:
        """Start or stop counting ops outside of sessions."""
        if not self._undo or self._sequences.is_on:
            return
        is_on = self._pywrap.TFE_Py_FastPathExecute is self._counting
        if on != is_on:
            self._counted = 0
            self._set(self._counting if on else self._original, self._light)

    def write(self) -> None:
        self._signatures.write(self._sequences.found)

    def _set(self, everywhere: Any, in_creating_modules: Any) -> None:
        if self._undo:  # is installed
            self._pywrap.TFE_Py_FastPathExecute = everywhere
            for proxy in self._proxies:
                proxy.__dict__["TFE_Py_FastPathExecute"] = in_creating_modules

    def _full_fast_path(self, original: Callable[..., Any]) -> Callable[..., Any]:  # noqa: C901, PLR0915
        from tensorflow.python.eager.core import _FallbackException
        from tensorflow.python.framework import dtypes, tensor_shape

        plain = frozenset({*_PLAIN, dtypes.DType, tensor_shape.TensorShape})
        # Locals of the closure: looking up attributes for each op would be slow.
        local, numbers = self._sequences.local, self._signatures.numbers
        mark = self._sequences.mark
        first_attribute, creates = self._first_attribute, self._creates
        categories, scopes = self._categories, self._scopes.local
        stand_in, representative = self._stand_in, self._representative
        tensor_type, origins = self._types.tensor, self._signatures.origins
        getframe, known = sys._getframe, known_files

        def fast_path(*args: Any) -> Any:  # noqa: C901, PLR0912, PLR0915
            # (context, op, name, inputs..., attributes: names and values in turn...)
            try:
                op = args[1]
                frame: FrameType | None = getframe(1)
                try:
                    while not known[frame.f_code.co_filename]:  # type: ignore[union-attr]
                        frame = frame.f_back  # type: ignore[union-attr]
                except (KeyError, AttributeError):
                    frame = user_frame(frame)
                thread = local.thread
                thread.left -= 1
                if thread.left < 0:
                    mark(thread)
                sequence = thread.sequence
                begin = len(sequence)
                end = first_attribute.get(op) or self._learn(op)
                scope = args[0]._thread_local_data.device_name
                place = (id(frame.f_code), frame.f_lasti) if frame is not None else None
                key = [op, place, scope, scopes.chain]
                for value in args[3:end]:
                    if categories.get(type(value)) == _TENSOR:
                        dtype = value._datatype_enum()
                        if dtype == RESOURCE:
                            dtype = -representative(value)
                        key.append(dtype)
                    else:
                        key.append(self._unusual(value, sequence, frame, place, scope))
                key.append(args[end:])
                try:
                    number = numbers.get(tuple(key))
                except TypeError:  # a list or a proto among the attributes
                    key[-1] = _hashable(key[-1], plain, stand_in)
                    number = numbers.get(tuple(key))
                is_new = number is None
                is_new_instance = False
                if number is None:
                    number = self._signatures.add_op(tuple(key), frame, args[3:end], args[end:])
                    is_new_instance = self._signatures.is_new_instance(number)
                sequence.append(number)
            except Exception as error:
                self._journal.failed("an eager op", error)
                with unseen:
                    return original(*args)
            try:
                if is_new_instance:
                    with self._dumps:
                        result = original(*args)
                else:
                    result = original(*args)
            except _FallbackException:  # TensorFlow will call `execute` for it
                del sequence[begin:]
                raise
            except BaseException as error:
                hide_frame(error)
                raise
            if is_new or creates[op]:
                self._made(number, result, args[2], is_new=is_new)
                if "Iterator" in op:
                    self._dumps.iterated()
            if type(result) is tensor_type:
                result._traceanalyzer_origin = origins[number]
            else:
                note(result, origins[number], tensor_type)
            return result

        return fast_path

    def _light_fast_path(
        self, original: Callable[..., Any], full: Callable[..., Any]
    ) -> Callable[..., Any]:
        creates = self._creates

        def fast_path(*args: Any) -> Any:
            op = args[1]
            if op not in creates:
                self._learn(op)
            try:  # rather than `with unseen`, which takes longer than all the rest
                return full(*args) if creates[op] else original(*args)
            except BaseException as error:
                hide_frame(error)
                raise

        return fast_path

    def _count(self, *_: Any) -> None:
        self._counted += 1

    def _execute(self, original: Callable[..., Any]) -> Callable[..., Any]:  # noqa: C901
        op_def = self._types.op_def
        functions = self._functions  # a lookup of a name that is no op takes some µs

        def execute(*args: Any) -> Any:
            # (context, device, op, inputs, attributes, [cancellation,] number of outputs)
            number, is_new, is_new_instance = -1, False, False
            try:
                name = text(args[2])
                is_function = name in functions or op_def(name) is None
                thread = self._sequences.local.thread
                if is_function:
                    self._before_call(name, thread.number)
                is_recording = self._sequences.is_on  # another thread may change it meanwhile
                if is_recording or (is_function and name not in functions):
                    frame = user_frame(sys._getframe(1))
                    number, is_new = self._number(name, args, frame, is_function=is_function)
                    is_new_instance = is_new and self._signatures.is_new_instance(number)
                if is_recording:
                    thread.left -= 1
                    if thread.left < 0:
                        self._sequences.mark(thread)
                    thread.sequence.append(number)
            except Exception as error:
                self._journal.failed("an eager call", error)
                is_new = is_new_instance = False
            # Outside of the `try` above: an error here is the program's.
            try:
                if is_new_instance:
                    with self._dumps:
                        self._earlier.instantiate(args)
                        result = original(*args)
                else:
                    result = original(*args)
            except BaseException as error:
                hide_frame(error)
                raise
            if is_new:
                self._made(number, result, "", is_new=True)
            if number >= 0:
                note(result, self._signatures.origins[number], self._types.tensor)
            return result

        return execute

    def _number(
        self, name: str, args: tuple[Any, ...], frame: FrameType | None, *, is_function: bool
    ) -> tuple[int, bool]:
        """Return the number of a call's signature, and whether it is new."""
        tensor_type = self._types.tensor
        scope, inputs, attributes = args[1], args[3], args[4]
        # Resources that are passed to a call affect placement; values of tensors do not.
        positions = self._functions.get(name)
        if positions is None:
            positions = tuple(
                k
                for k, value in enumerate(inputs)
                if isinstance(value, tensor_type) and value._datatype_enum() == RESOURCE
            )
            if is_function:
                self._functions[name] = positions
        place = (id(frame.f_code), frame.f_lasti) if frame is not None else None
        bound = tuple([self._representative(inputs[k]) for k in positions])
        key: tuple[Any, ...] = (name, place, scope, self._scopes.local.chain, bound)
        if not is_function:
            dtypes = [v._datatype_enum() for v in inputs if isinstance(v, tensor_type)]
            key = (*key, tuple(dtypes), repr(attributes))
        number = self._signatures.numbers.get(key)
        if number is not None:
            return number, False
        if is_function:
            return self._signatures.add_call(key, frame, inputs), True
        return self._signatures.add_op(key, frame, inputs, attributes or ()), True

    def _made(self, number: int, result: Any, name: Any, *, is_new: bool) -> None:
        with self._journal.guard("outputs of an eager op"):
            self._signatures.add_outputs(number, result, name, is_new=is_new)

    def _learn(self, op: str) -> int:
        """Record whether an op creates resources; return the position of its first attribute."""
        op_def = self._types.op_def(op)
        end = 3 + (len(op_def.input_arg) if op_def is not None else 0)
        outputs = op_def.output_arg if op_def is not None else ()
        self._creates[op] = any(output.type == RESOURCE for output in outputs)
        self._first_attribute[op] = end
        return end

    def _unusual(
        self, value: Any, sequence: array[int], frame: FrameType | None, place: Any, scope: Any
    ) -> Any:
        """Return the key of an input that is not a plain tensor, and record reads of variables."""
        category = self._categories.get(type(value))
        if category is None:
            category = self._categories[type(value)] = self._category(value)
        if category == _TENSOR:
            dtype = value._datatype_enum()
            return dtype if dtype != RESOURCE else -self._representative(value)
        if category == _VARIABLE:
            # TensorFlow reads it first, in C++ (pywrap_tfe_src.cc, ReadVariableOp).
            handle = value.handle._id
            key = ("ReadVariableOp", place, scope, self._scopes.local.chain, handle)
            number = self._signatures.numbers.get(key)
            if number is None:
                number = self._signatures.add_read(key, frame, value)
            sequence.append(number)
            return ("variable", handle)
        if category == _LIST:
            # All of the list, because TensorFlow reads each variable in it.
            parts = [self._unusual(v, sequence, frame, place, scope) for v in value]
            return (len(value), *parts[:_MOST_OF_A_LIST])
        # Only the type of NumPy and Python values: the value may differ each time.
        return ("array", value.dtype.num) if category == _ARRAY else python_kind(value)

    def _category(self, value: Any) -> int:
        types = self._types
        kinds = (types.tensor, types.variable, (list, tuple), types.array)
        found = (n for n, kind in enumerate(kinds, _TENSOR) if isinstance(value, kind))
        return next(found, _OTHER)


def _hashable(value: Any, plain: frozenset[type], stand_in: Mapping[str, str]) -> Any:
    """Return a hashable key for an attribute's value. The key keeps no objects alive."""
    kind = type(value)
    if kind in plain:
        return value
    if kind is list or kind is tuple:
        return tuple([_hashable(each, plain, stand_in) for each in value])
    name = getattr(value, "name", None) if callable(value) else None  # of a function: its own alone
    return stand_in.get(text(name), text(name)) if name else repr(value)

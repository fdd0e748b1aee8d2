"""Describes each distinct eager op and resource, and records which ops each thread ran."""

from __future__ import annotations

import base64
import itertools
import sys
import threading
from array import array
from types import CodeType, FrameType
from typing import Any, Iterable, Optional, Sequence, Tuple

from .attributes import RESOURCE, InputTypes, bytes_of, flat, shape, text
from .frames import FramePool, Pool, outwards, user_and_library
from .hooks import JournalWriter, loaded
from .origins import UNKNOWN, origin_of_outputs
from .scopes import Scopes

_MOST_SIGNATURES = 20_000
# Resources made for each pass over a dataset. All those that a line makes are alike.
_OF_ONE_PASS = (
    *("AnonymousIterator", "AnonymousMultiDeviceIterator", "AnonymousMemoryCache"),
    *("AnonymousRandomSeedGenerator", "AnonymousSeedGenerator"),
)
_MOST_ALIKE = 8  # resources of one line that are kept separate
_MOST_TENSORS = 64  # inputs and outputs described in a signature that is not a call
_MARKER = "traceanalyzer:eager"
_MARK_EVERY = 1000  # ops of a thread: how far a misalignment can reach
_OF_A_TENSOR = ("dtype", "device", "backing_device", "resource", "shape")


Key = Tuple[Any, ...]
Caller = Optional[FrameType]  # the user's frame


class Signatures:
    """Describes each distinct eager op once."""

    def __init__(
        self, journal: JournalWriter, frames: FramePool, scopes: Scopes, scope_pool: Pool
    ) -> None:
        self.numbers: dict[Key, int] = {}
        self.types = InputTypes()
        # The origin of the device of each signature's outputs.
        self.origins: list[int | None] = []
        self.alike: dict[int, int] = {}  # the tensor that represents a resource's tensor
        self._handles: dict[str, int] = {}  # by what a handle says: the tensor that represents it
        self._journal = journal
        self._frames = frames
        self._scopes = scopes
        self._scope_pool = scope_pool
        self._lock = threading.RLock()
        self._signatures: list[dict[str, Any]] = []
        self._codes: list[CodeType | None] = []  # kept, so that their ids are not reused
        self._resources: list[dict[str, Any]] = []
        self._resource_of = scopes.origins.resource_of
        self._made: dict[int, list[int]] = {}  # by signature: the numbers of iterators' tensors
        self._instances: set[tuple[Any, ...]] = set()
        # Inputs whose dtype only the outputs show, each with the attribute that is its dtype.
        self._unknown: dict[int, list[tuple[dict[str, Any], str]]] = {}

    def write(self, sequences: list[dict[str, Any]]) -> None:
        with self._lock:
            found = {"signatures": list(self._signatures), "resources": list(self._resources)}
        self._frames.write()
        self._scope_pool.write()
        self._journal.write("eager", sequences=sequences, **found)

    def op_types(self) -> set[str]:
        """Return the types of all ops, and the names of functions that were called."""
        with self._lock:
            return {found["op"] for found in self._signatures}

    # A key begins with the op or function, the user's place, the requested device, and the chain
    # of scopes.

    def representative(self, handle: Any) -> int | None:
        """Return the id of the tensor that represents a handle's resource, or its own.

        A function that returns a handle returns another tensor for the same resource: so do those
        that keep a variable of a loop for their gradient.
        """
        number: int | None = getattr(handle, "_id", None)
        if number is None:
            return None
        if number in self._resource_of:
            return self.alike.get(number, number)
        return self._handles.get(_text_of(handle), number)

    def add_op(self, key: Key, frame: Caller, inputs: Iterable[Any], given: Sequence[Any]) -> int:
        """Describe an op. `given` alternates between names and values of attributes."""
        inputs = tuple(inputs)
        known = self.types.attributes(key[0], inputs, given)
        takes: list[dict[str, Any]] = []
        unknown: list[tuple[dict[str, Any], str]] = []
        found = self.types.inputs(key[0], inputs, known)
        for value, dtype, attr in itertools.islice(found, _MOST_TENSORS):
            takes.append({**self._tensor(value), "dtype": dtype})
            if attr and attr not in known:
                unknown.append((takes[-1], attr))
        number = self._add(key, frame, takes, known)
        if unknown and self._signatures[number]["inputs"] is takes:
            self._unknown[number] = unknown
        return number

    def add_call(self, key: Key, frame: Caller, inputs: Iterable[Any]) -> int:
        """Describe a call of a function; its inputs are the function's `_Arg`s, in order."""
        return self._add(key, frame, list(map(self._tensor, inputs)), {}, is_function=True)

    def add_read(self, key: Key, frame: Caller, variable: Any) -> int:
        """Describe the read of a variable that was passed instead of a tensor."""
        known = {"dtype": self.types.dtype(variable)}
        number = self._add(key, frame, [self._tensor(variable.handle)], known)
        # It runs on the variable's device, regardless of the request (eager/placement_utils.cc,
        # MaybePinToResourceDevice).
        self._signatures[number]["outputs"] = [self._tensor(variable)]
        return number

    def is_new_instance(self, number: int) -> bool:
        """Return whether TensorFlow instantiates a signature for the first time, and record that.

        TensorFlow reuses a kernel for the same op or function, scope, input devices, and attributes
        (eager/execute.cc, GetOrCreateKernelAndDevice). Of the attributes, only those that name a
        function matter here, because only functions have graphs.
        """
        with self._lock:
            found = self._signatures[number]
            devices = tuple(each["device"] for each in found["inputs"])
            values = flat(found["attributes"].values())
            functions = tuple(v["func"] for v in values if isinstance(v, dict) and "func" in v)
            instance = (found["op"], found["scope"], devices, functions)
            is_new = instance not in self._instances
            self._instances.add(instance)
            return is_new

    def add_outputs(self, number: int, result: Any, name: Any, *, is_new: bool) -> None:
        """Describe the outputs of a new signature, and note the resources that the op returned."""
        with self._lock:
            found = self._signatures[number]
            outputs = [v for v in flat((result,)) if isinstance(v, self.types.tensor)]
            if not found["is_function"]:
                for handle in outputs:
                    if handle._datatype_enum() == RESOURCE:
                        self._add_resource(number, handle, text(name))
            if not is_new:
                return
            found["outputs"] = found["outputs"] or [
                self._tensor(v) for v in outputs[:_MOST_TENSORS]
            ]
            unknown = self._unknown.pop(number, ())
            if unknown:
                dtypes = [output["dtype"] for output in found["outputs"]]
                of_outputs = self.types.outputs(found["op"], dtypes)
                found["attributes"] = {**of_outputs, **found["attributes"]}
            for described, attr in unknown:
                described["dtype"] = found["attributes"].get(attr)

    def _add(
        self,
        key: Key,
        frame: Caller,
        inputs: list[dict[str, Any]],
        attributes: dict[str, Any],
        *,
        is_function: bool = False,
    ) -> int:
        op, _, scope, *_ = key
        with self._lock:
            number, scopes = len(self._signatures), self._scopes.opened()
            origin = origin_of_outputs(number, scopes)
            if number >= _MOST_SIGNATURES:
                self._journal.note(
                    "signatures_left_out",
                    "warning",
                    f"the program ran more than {_MOST_SIGNATURES} different eager ops, so only "
                    "the op types of the rest are recorded",
                )
                key, frame, inputs, attributes, origin = ("other", op), None, [], {}, UNKNOWN
                if key in self.numbers:
                    return self.numbers[key]
            places = ((f.f_code.co_filename, f) for f in outwards(sys._getframe(1)))
            self._signatures.append(
                {
                    "op": op,
                    "is_function": is_function,
                    "scope": text(scope),
                    "attributes": attributes,
                    "inputs": inputs,
                    "frame": self._frames.add_frame(frame),
                    # Other lines of the library may make ops of the same signature.
                    "library": self._frames.add_frame(user_and_library(places)[1]),
                    "scope_frame": self._scopes.local.frame,
                    "scopes": [self._scope_pool.number(scope) for scope in scopes],
                    "outputs": [],
                }
            )
            self.origins.append(origin)
            self._codes.append(frame.f_code if frame is not None else None)
            self.numbers[key] = number
            return number

    def _add_resource(self, number: int, handle: Any, name: str) -> None:
        found = self._signatures[number]
        if found["op"].startswith(_OF_ONE_PASS):
            made = self._made.setdefault(number, [])
            if len(made) >= _MOST_ALIKE:
                self.alike[handle._id] = made[-1]
                self._resource_of[handle._id] = self._resource_of[made[-1]]
                return
            made.append(handle._id)
        attributes = found["attributes"]
        sizes, dtype = (attributes.get("shape") or {}).get("shape"), attributes.get("dtype")
        # A variable's readable name, if the version has one; its shared name is random.
        readable = attributes.get("debug_name")
        given = readable.get("s") if isinstance(readable, dict) else None
        self._resource_of[handle._id] = len(self._resources)
        if said := _text_of(handle):
            self._handles[said] = handle._id
        self._resources.append(
            {
                "signature": number,
                "name": (given or name).rstrip("/"),
                "dtype": dtype,
                "shape": sizes,
                "bytes": bytes_of(dtype, sizes),
                "device": text(handle.device),
            }
        )

    def _tensor(self, value: Any) -> dict[str, Any]:
        found: dict[str, Any] = dict.fromkeys(_OF_A_TENSOR)
        dtype = self.types.dtype(value)
        if dtype is not None:  # otherwise a Python value, converted to a tensor in C++
            is_variable = isinstance(value, self.types.variable)  # it is read for the op
            tensor = value.handle if is_variable else value
            device = found["device"] = text(tensor.device)
            found["backing_device"] = device if is_variable else text(tensor.backing_device)
            if dtype == "resource" and not is_variable:
                number = self.representative(tensor)
                found["resource"] = None if number is None else self._resource_of.get(number)
            found.update(dtype=dtype, shape=shape(value.shape))
        return found


def _text_of(handle: Any) -> str:
    """Return the resource's unique name and its device, or "" if TensorFlow hides it."""
    try:
        return str(handle._summarize_value()) if handle._prefer_custom_summarizer() else ""
    except AttributeError:  # an older version
        return ""


class _Thread:
    __slots__ = ("left", "name", "number", "sequence", "session")

    def __init__(self, number: int) -> None:
        self.number = number
        self.name = threading.current_thread().name
        self.session = -1
        self.sequence = array("I")
        self.left = 0  # ops until the next marker


class _ThreadSignatures(threading.local):
    def __init__(self, threads: list[_Thread]) -> None:
        self.thread = _Thread(len(threads))
        threads.append(self.thread)


class Sequences:
    """The signature numbers of each thread's ops, in order.

    Markers in the trace link each thread to its trace line, and positions in the sequence to
    positions on that line.
    """

    def __init__(self) -> None:
        self._threads: list[_Thread] = []
        self._session = -1
        self.local = _ThreadSignatures(self._threads)
        self.found: list[dict[str, Any]] = []  # of sessions that have ended

    @property
    def is_on(self) -> bool:
        return self._session >= 0

    def count(self) -> int:
        return sum(len(t.sequence) for t in list(self._threads) if t.session == self._session)

    def begin(self, session: int) -> None:
        self._session = session
        for thread in list(self._threads):
            thread.left = 0

    def end(self) -> None:
        session, self._session = self._session, -1
        for thread in list(self._threads):
            if thread.session == session and len(thread.sequence):
                groups = itertools.groupby(thread.sequence)
                runs = [(number, sum(1 for _ in group)) for number, group in groups]
                self.found.append(
                    {
                        "thread": thread.number,
                        "name": thread.name,
                        "session": session,
                        "signatures": _packed(array("I", [k for k, _ in runs])),
                        "counts": _packed(array("I", [n for _, n in runs])),
                    }
                )
            thread.sequence = array("I")

    def mark(self, thread: _Thread) -> None:
        """Add a marker to the trace, with the thread's number and the position in its sequence."""
        if self._session < 0:
            thread.left = 0
            return
        if thread.session != self._session:
            thread.session = self._session
            thread.sequence = array("I")
        thread.left = _MARK_EVERY
        traceme = loaded("tensorflow.python.profiler.internal._pywrap_traceme").TraceMe
        traceme(_MARKER, thread=thread.number, index=len(thread.sequence)).Stop()


def _packed(numbers: array[int]) -> str:
    if sys.byteorder != "little":
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()

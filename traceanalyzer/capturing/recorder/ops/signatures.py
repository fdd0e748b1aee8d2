"""What is known of each distinct eager op: its signature; and of each resource one has made.

Python values and NumPy arrays are made tensors in C++. Of which type follows from the rules of
`TFE_Py_FastPathExecute_C` (python/eager/pywrap_tfe_src.cc, `MaybeGetDTypeForAttr`) and, where these
leave it to the value, of `ConvertToEagerTensor` (pywrap_tensor.cc) and py_seq_tensor.cc; or from
what the op has made. Where these leave it open, no type is written.
"""

from __future__ import annotations

import itertools
import sys
import threading
from typing import TYPE_CHECKING, Any, Iterable, Iterator

from ..process.hooks import loaded
from .attributes import (
    DTYPE_OF_PYTHON,
    attribute,
    bytes_of,
    dtype_name,
    flat,
    given_name,
    python_kind,
    shape,
    tensors_of,
    text,
)
from .frames import library_frame
from .origins import UNKNOWN, origin_of_outputs

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from ..journal import Journal
    from .frames import FramePool
    from .scopes import Scopes

RESOURCE = 20  # DT_RESOURCE in types.proto
_MOST_SIGNATURES = 20_000
# Resources made for each pass over a dataset; those that one line makes are interchangeable.
_OF_ONE_PASS = (
    "AnonymousIterator",
    "AnonymousMemoryCache",
    "AnonymousMultiDeviceIterator",
    "AnonymousRandomSeedGenerator",
    "AnonymousSeedGenerator",
)
_MOST_ALIKE = 8  # of those that one line makes, kept apart
_MOST_TENSORS = 64  # inputs and outputs described in a signature that is not a call


class Signatures:
    """Describes eager ops, each distinct one once."""

    def __init__(self, journal: Journal, frames: FramePool, scopes: Scopes) -> None:
        import numpy as np
        from tensorflow.python.framework import op_def_registry
        from tensorflow.python.framework.ops import EagerTensor
        from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

        self.numbers: dict[Any, int] = {}
        self.op_def = op_def_registry.get
        self.tensor_type = EagerTensor
        self.variable_type = BaseResourceVariable
        self.array_types = (np.ndarray, np.generic)
        self._journal = journal
        self._frames = frames
        self._scopes = scopes
        # Of each signature, whose device the tensors have that it makes.
        self.origins: list[int | None] = []
        self._lock = threading.RLock()
        self._signatures: list[dict[str, Any]] = []
        self._codes: list[CodeType | None] = []
        self._resources: list[dict[str, Any]] = []
        self._resource_of: dict[int, int] = {}
        self.alike: dict[int, int] = {}
        self._made: dict[int, list[int]] = {}  # by signature: the numbers of iterators' tensors
        self._instances: set[tuple[Any, ...]] = set()
        # Inputs whose type only the outputs may show, with the attribute that is their type.
        self._unknown: dict[int, list[tuple[dict[str, Any], str]]] = {}

    def resource_of(self, tensor: Any) -> int:
        """Return the number of the resource that a tensor is a handle of, or -1."""
        return self._resource_of.get(tensor._id, -1)

    def to_json(self) -> dict[str, Any]:
        """Return everything, as the journal's record `eager` has it."""
        with self._lock:
            return {
                "signatures": list(self._signatures),
                "resources": list(self._resources),
                "frames": self._frames.to_list(),
            }

    def op_types(self) -> set[str]:
        """Return the types of all ops, and the names of functions that were called."""
        with self._lock:
            return {found["op"] for found in self._signatures}

    def add_op(  # noqa: PLR0913, PLR0917
        self,
        key: Any,
        op: str,
        frame: FrameType | None,
        scope: Any,
        inputs: tuple[Any, ...],
        attributes: tuple[Any, ...],
    ) -> int:
        """Describe an op; attributes are names and values in turn."""
        known = self._attributes(op, inputs, attributes)
        described = list(itertools.islice(self._inputs(op, inputs, known), _MOST_TENSORS))
        takes = [each for each, _ in described]
        number = self._add(key, frame, op, scope, takes, known)
        unknown = [(each, attr) for each, attr in described if attr and attr not in known]
        if unknown and self._signatures[number]["inputs"] is takes:
            self._unknown[number] = unknown
        return number

    def add_call(
        self, key: Any, name: str, frame: FrameType | None, scope: Any, inputs: Iterable[Any]
    ) -> int:
        """Describe a call of a function; its inputs are bound to the function's `_Arg`s in turn."""
        takes = [self._tensor(value) for value in inputs]
        return self._add(key, frame, name, scope, takes, {}, is_function=True)

    def add_read(self, key: Any, variable: Any, frame: FrameType | None, scope: Any) -> int:
        """Describe the read of a variable that was passed where a tensor is wanted."""
        takes, known = [self._tensor(variable.handle)], {"dtype": self._dtype(variable)}
        number = self._add(key, frame, "ReadVariableOp", scope, takes, known)
        # It runs where the variable is, whatever was asked for (eager/placement_utils.cc,
        # MaybePinToResourceDevice).
        self._signatures[number]["outputs"] = [self._value_of(variable)]
        return number

    def is_new_instance(self, number: int) -> bool:
        """Return whether TensorFlow may have to make a signature ready to run: asked but once.

        What was made for the same op or function, scope and devices of its inputs is used again,
        whichever line asks and whichever resources are bound (eager/execute.cc,
        GetOrCreateKernelAndDevice). Of attributes, which are a part of that key too, those matter
        here that name a function: it alone has a graph.
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

    def add_outputs(self, number: int, result: Any, name: str = "") -> None:
        """Describe what an op returned, when its signature was new; `name` was given to the op."""
        with self._lock:
            found = self._signatures[number]
            outputs = [v for v in flat((result,)) if isinstance(v, self.tensor_type)]
            for value in outputs:
                if value._datatype_enum() == RESOURCE and not found["is_function"]:
                    self._add_resource(number, value, name)
            if not found["outputs"]:
                found["outputs"] = [self._tensor(v) for v in outputs[:_MOST_TENSORS]]
            unknown = self._unknown.pop(number, ())
            if unknown:
                self._add_types_of_outputs(found)
            for described, attr in unknown:
                described["dtype"] = found["attributes"].get(attr)

    def add_resources(self, number: int, result: Any, name: str) -> None:
        """Note a further resource that an op of a known signature has made."""
        with self._lock:
            for value in flat((result,)):
                if isinstance(value, self.tensor_type) and value._datatype_enum() == RESOURCE:
                    self._add_resource(number, value, name)

    def _add_types_of_outputs(self, found: dict[str, Any]) -> None:
        """Add the attributes that say of which type an op's outputs are: an op has the same."""
        arguments = self.op_def(found["op"]).output_arg
        if len(arguments) != len(found["outputs"]):
            return
        if any(a.number_attr or a.type_list_attr for a in arguments):
            return
        for arg, output in zip(arguments, found["outputs"]):
            if arg.type_attr:
                found["attributes"].setdefault(arg.type_attr, output["dtype"])

    def _add(  # noqa: PLR0913, PLR0917
        self,
        key: Any,
        frame: FrameType | None,
        op: str,
        scope: Any,
        inputs: list[dict[str, Any]],
        attributes: dict[str, Any],
        *,
        is_function: bool = False,
    ) -> int:
        with self._lock:
            if len(self._signatures) >= _MOST_SIGNATURES:
                self._journal.note(
                    "signatures_left_out",
                    "warning",
                    f"there are more than {_MOST_SIGNATURES} different eager ops: of further ones "
                    "only the type is recorded",
                )
                key, frame, inputs, attributes = ("other", op), None, [], {}
                if key in self.numbers:
                    return self.numbers[key]
            number = len(self._signatures)
            scopes = self._scopes.opened()
            self._signatures.append(
                {
                    "op": op,
                    "is_function": is_function,
                    "scope": text(scope),
                    "attributes": attributes,
                    "inputs": inputs,
                    "frame": self._frames.add_frame(frame),
                    # Other lines of the library under that line may make ops of the same signature.
                    "library": self._frames.add_frame(library_frame(sys._getframe(1))),
                    "scope_frame": self._scopes.local.frame,
                    "scopes": scopes,
                    "outputs": [],
                }
            )
            is_other = key[0] == "other"
            origin = UNKNOWN if is_other else origin_of_outputs(number, scopes)
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
        sizes = (attributes.get("shape") or {}).get("shape")
        dtype = attributes.get("dtype")
        self._resource_of[handle._id] = len(self._resources)
        self._resources.append(
            {
                "signature": number,
                "name": (given_name(attributes) or name).rstrip("/"),
                "dtype": dtype,
                "shape": sizes,
                "bytes": bytes_of(dtype, sizes),
                "device": text(handle.device),
            }
        )

    def _inputs(
        self, op: str, inputs: tuple[Any, ...], attributes: dict[str, Any]
    ) -> Iterator[tuple[dict[str, Any], str]]:
        """Describe the tensors that an op takes, each with the attribute of its type, or ""."""
        arguments = self.op_def(op).input_arg
        for k, value in enumerate(inputs):
            arg = arguments[k] if len(inputs) == len(arguments) else None
            for one in tensors_of(arg, value):
                described = self._tensor(one)
                if described["dtype"] is None and arg is not None:
                    described["dtype"] = self._dtype_as(arg, one, attributes)
                yield described, arg.type_attr if arg is not None else ""

    def _dtype_as(self, arg: Any, value: Any, attributes: dict[str, Any]) -> str | None:
        """Return of which type a value is made a tensor, for an argument of an op."""
        if arg.type:
            return dtype_name(arg.type)
        return attributes.get(arg.type_attr) if arg.type_attr else self._own_dtype(value)

    def _value_of(self, variable: Any) -> dict[str, Any]:
        handle = variable.handle
        return {
            "dtype": self._dtype(variable),
            "device": text(handle.device),
            "backing_device": text(handle.device),
            "resource": None,
            "shape": shape(variable.shape),
        }

    def _tensor(self, value: Any) -> dict[str, Any]:
        if isinstance(value, self.variable_type):  # read first: what the op takes is its value
            return self._value_of(value)
        if not isinstance(value, self.tensor_type):  # a Python value, made a tensor in C++
            nothing = {"dtype": None, "device": "", "backing_device": ""}
            return {**nothing, "resource": None, "shape": None}
        return {
            "dtype": dtype_name(value._datatype_enum()),
            "device": text(value.device),
            "backing_device": text(value.backing_device),
            "resource": self._resource_of.get(value._id),
            "shape": shape(value.shape),
        }

    def _attributes(self, op: str, inputs: Any, given: tuple[Any, ...]) -> dict[str, Any]:
        """Return an op's attributes: those given, and those that its inputs decide."""
        op_def = self.op_def(op)
        kinds = {a.name: a.type for a in op_def.attr}
        found: dict[str, Any] = {}
        for name, value in zip(given[::2], given[1::2]):
            label = text(name)
            found[label] = attribute(kinds.get(label, ""), value)
        if len(inputs) == len(op_def.input_arg):
            for arg, value in zip(op_def.input_arg, inputs):
                self._infer(arg, value, found)
            self._infer_of_values(op_def, inputs, found)
        return found

    def _infer_of_values(self, op_def: Any, inputs: Any, found: dict[str, Any]) -> None:
        """Add types that no tensor decides: the OpDef's default does, or else the first value."""
        of_tensors = dict(found)
        defaults = {a.name: a.default_value.type for a in op_def.attr if a.type == "type"}
        for arg, value in zip(op_def.input_arg, inputs):
            name = arg.type_attr
            first = next(tensors_of(arg, value), None)
            if not name or name in of_tensors or first is None:
                continue
            of_tensors[name] = None  # what comes later is cast to what the first is
            dtype = dtype_name(defaults[name]) if defaults.get(name) else self._own_dtype(first)
            if dtype is not None:
                found[name] = dtype

    def _infer(self, arg: Any, value: Any, found: dict[str, Any]) -> None:
        values = value if isinstance(value, (list, tuple)) else (value,)
        known = [d for d in map(self._dtype, values) if d is not None]
        if arg.type_attr and known:
            found.setdefault(arg.type_attr, known[0])
        if arg.number_attr:
            found.setdefault(arg.number_attr, len(values))
        if arg.type_list_attr:
            found.setdefault(arg.type_list_attr, [self._own_dtype(v) for v in values])

    def _dtype(self, value: Any) -> str | None:
        if isinstance(value, self.tensor_type):
            return dtype_name(value._datatype_enum())
        if isinstance(value, self.variable_type):
            return dtype_name(value.dtype.base_dtype.as_datatype_enum)
        return None

    def _own_dtype(self, value: Any) -> str | None:
        """Return of which type a value is made a tensor where nothing else decides, or None."""
        dtype = self._dtype(value)
        if dtype is not None:
            return dtype
        if isinstance(value, self.array_types):
            try:  # objects are texts, or nothing that TensorFlow takes (ndarray_tensor.cc)
                as_dtype = loaded("tensorflow.python.framework.dtypes").as_dtype
                return dtype_name(as_dtype(value.dtype).as_datatype_enum)
            except TypeError:
                return None
        return DTYPE_OF_PYTHON.get(python_kind(value))

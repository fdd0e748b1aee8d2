"""Encodes the attributes of ops for the capture file, and finds the dtypes of their inputs.

TensorFlow converts Python values and NumPy arrays to tensors in C++. The recorder infers their
dtypes by the rules of `TFE_Py_FastPathExecute_C` (python/eager/pywrap_tfe_src.cc,
`MaybeGetDTypeForAttr`), from the value (`ConvertToEagerTensor` in pywrap_tensor.cc, and
py_seq_tensor.cc), or from the op's outputs. Otherwise, it records no dtype.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Iterator, Sequence

from .hooks import loaded

_LONGEST = 1000
RESOURCE = 20  # DT_RESOURCE in types.proto
# py_seq_tensor.cc: an int becomes an int32 if it fits into one.
_INT32, _INT64 = "int32", "int64"
_DTYPE_OF_PYTHON: dict[Any, str] = {
    _INT32: "int32",
    _INT64: "int64",
    bool: "bool",
    float: "float",
    complex: "complex128",
    str: "string",
    bytes: "string",
}


def as_json(value: Any) -> Any:  # noqa: PLR0911
    """Encode an attribute's value as JSON: a dtype as its name, a string as `{"s": ...}`, etc.

    The generated op functions of TensorFlow pass Python scalars, strings, bytes, lists, DTypes or
    their enum numbers, shapes, and protos.
    """
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (bytes, str)):
        return {"s": text(value[:_LONGEST])}
    if isinstance(value, (list, tuple)):
        return [as_json(v) for v in value[:_LONGEST]]
    if hasattr(value, "as_datatype_enum"):
        return dtype_name(value.as_datatype_enum)
    if hasattr(value, "dims") and hasattr(value, "rank"):  # a TensorShape
        return {"shape": shape(value)}
    if hasattr(value, "tensor_shape") and hasattr(value, "dtype"):  # a TensorProto
        dims = [d.size for d in value.tensor_shape.dim]
        return {"tensor": dtype_name(value.dtype), "shape": dims}
    name = getattr(value, "name", None)
    return {"func": text(name)} if name else {"s": str(value)[:_LONGEST]}


def attribute(kind: str, value: Any) -> Any:
    """Encode an attribute's value as JSON, given the attribute's kind in the OpDef."""
    if kind == "type" and isinstance(value, int):
        return dtype_name(value)
    if kind == "list(type)" and isinstance(value, (list, tuple)):
        return [dtype_name(v) if isinstance(v, int) else as_json(v) for v in value]
    if kind == "bool":
        return bool(value)
    if kind == "shape" and isinstance(value, (list, tuple)):
        return {"shape": [-1 if d is None else int(d) for d in value]}
    return as_json(value)


def shape(value: Any) -> list[int] | None:
    """Return a shape's sizes, with -1 for unknown ones; None if the rank is unknown."""
    if value is None or value.rank is None:
        return None
    return [-1 if d is None else int(d) for d in value.as_list()]


def dtype_name(number: int) -> str:
    """Return the name of a dtype by its number in types.proto: `float`, `int32`, `resource`."""
    with suppress(ValueError):
        name: str = loaded("tensorflow.core.framework.types_pb2").DataType.Name(number)
        return name[3:].lower()
    return f"dtype{number}"


def text(value: Any) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else (value or "")


def flat(values: Any) -> Iterator[Any]:
    """Yield the values of nested lists."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from flat(value)
        else:
            yield value


def bytes_of(dtype: str | None, sizes: list[int] | None) -> int | None:
    """Return the size of a variable in bytes; None if its dtype or shape is unknown."""
    if dtype is None or sizes is None or any(s < 0 for s in sizes):
        return None
    with suppress(TypeError, KeyError):
        total = int(loaded("tensorflow.python.framework.dtypes").as_dtype(dtype).size)
        for size in sizes:
            total *= size
        return total
    return None


def python_kind(value: Any) -> Any:
    """Return a key that Python values share if TensorFlow gives them the same dtype."""
    if type(value) is int:
        return _INT32 if -(1 << 31) <= value < 1 << 31 else _INT64
    return type(value)


class InputTypes:
    """Finds the dtypes that TensorFlow gives the inputs of ops."""

    def __init__(self) -> None:
        import numpy as np
        from tensorflow.python.framework import op_def_registry
        from tensorflow.python.framework.ops import EagerTensor
        from tensorflow.python.ops.resource_variable_ops import BaseResourceVariable

        self.op_def = op_def_registry.get
        self.tensor = EagerTensor
        self.variable = BaseResourceVariable
        self.array = (np.ndarray, np.generic)

    def dtype(self, value: Any) -> str | None:
        """Return the dtype of a tensor or variable; None for other values."""
        if isinstance(value, self.tensor):
            return dtype_name(value._datatype_enum())
        if isinstance(value, self.variable):
            return dtype_name(value.dtype.base_dtype.as_datatype_enum)
        return None

    def attributes(self, op: str, inputs: Any, given: Sequence[Any]) -> dict[str, Any]:
        """Return an op's attributes: the given ones, and ones inferred from its inputs."""
        op_def = self.op_def(op)
        kinds = {a.name: a.type for a in op_def.attr}
        found: dict[str, Any] = {}
        for name, value in zip(given[::2], given[1::2]):
            label = text(name)
            found[label] = attribute(kinds.get(label, ""), value)
        if len(inputs) != len(op_def.input_arg):
            return found
        for arg, value in zip(op_def.input_arg, inputs):
            values = value if isinstance(value, (list, tuple)) else (value,)
            known = next((d for d in map(self.dtype, values) if d is not None), None)
            if arg.type_attr and known is not None:
                found.setdefault(arg.type_attr, known)
            if arg.number_attr:
                found.setdefault(arg.number_attr, len(values))
            if arg.type_list_attr:
                found.setdefault(arg.type_list_attr, [self._own_dtype(v) for v in values])
        # Otherwise the OpDef's default decides, or the first value: later ones are cast to it.
        defaults = {a.name: a.default_value.type for a in op_def.attr if a.type == "type"}
        decided = set(found)
        for arg, value in zip(op_def.input_arg, inputs):
            name, first = arg.type_attr, next(_tensors_of(arg, value), None)
            if name and name not in decided and first is not None:
                decided.add(name)
                dtype = dtype_name(defaults[name]) if defaults.get(name) else self._own_dtype(first)
                if dtype is not None:
                    found[name] = dtype
        return found

    def inputs(
        self, op: str, inputs: tuple[Any, ...], attributes: dict[str, Any]
    ) -> Iterator[tuple[Any, str | None, str]]:
        """Yield each input's value and dtype, and the attribute that sets the dtype (or "")."""
        arguments = self.op_def(op).input_arg
        for k, value in enumerate(inputs):
            arg = arguments[k] if len(inputs) == len(arguments) else None
            for one in _tensors_of(arg, value):
                dtype = self.dtype(one)
                if dtype is None and arg is not None:
                    if arg.type:
                        dtype = dtype_name(arg.type)
                    elif arg.type_attr:
                        dtype = attributes.get(arg.type_attr)
                    else:
                        dtype = self._own_dtype(one)
                yield one, dtype, arg.type_attr if arg is not None else ""

    def outputs(self, op: str, dtypes: list[str | None]) -> dict[str, str | None]:
        """Return the attributes that set the dtypes of an op's outputs, given these dtypes."""
        arguments = self.op_def(op).output_arg
        is_plain = not any(a.number_attr or a.type_list_attr for a in arguments)
        pairs = zip(arguments, dtypes) if is_plain and len(arguments) == len(dtypes) else ()
        return {arg.type_attr: dtype for arg, dtype in pairs if arg.type_attr}

    def _own_dtype(self, value: Any) -> str | None:
        """Return the dtype that TensorFlow infers from a value alone, or None."""
        dtype = self.dtype(value)
        if dtype is not None:
            return dtype
        if isinstance(value, self.array):
            as_dtype = loaded("tensorflow.python.framework.dtypes").as_dtype
            # Arrays of objects are texts, or TensorFlow refuses them (ndarray_tensor.cc).
            with suppress(TypeError):
                dtype = dtype_name(as_dtype(value.dtype).as_datatype_enum)
            return dtype
        return _DTYPE_OF_PYTHON.get(python_kind(value))


def _tensors_of(arg: Any, value: Any) -> Iterator[Any]:
    """Yield each value that becomes a tensor. A list becomes one tensor if the op expects one."""
    if arg is not None and not arg.number_attr and not arg.type_list_attr:
        return iter((value,))
    return flat((value,))

"""Values that ops take: as the journal writes them, and of which type they are made tensors.

The forms are the capture file's.
"""

from __future__ import annotations

from typing import Any, Iterator

from ..process.hooks import loaded

_LONGEST = 1000


def as_json(value: Any) -> Any:  # noqa: PLR0911
    """Write an attribute's value: a dtype as its name, a string as `{"s": ...}`, and so on.

    The generated op functions of TensorFlow pass Python scalars, strings, bytes, lists, DTypes or
    their numbers' proto enum, shapes, and protos.
    """
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, bytes):
        return {"s": value[:_LONGEST].decode("utf-8", "backslashreplace")}
    if isinstance(value, str):
        return {"s": value[:_LONGEST]}
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
    if isinstance(name, bytes):
        name = name.decode("utf-8", "backslashreplace")
    return {"func": str(name)} if name else {"s": str(value)[:_LONGEST]}


def shape(value: Any) -> list[int] | None:
    """Return a shape's sizes, -1 for an unknown one; None where not even the rank is known."""
    if value is None or value.rank is None:
        return None
    return [-1 if d is None else int(d) for d in value.as_list()]


def dtype_name(number: int) -> str:
    """Return the name of a dtype by its number in types.proto: `float`, `int32`, `resource`."""
    types = loaded("tensorflow.core.framework.types_pb2")
    try:
        name: str = types.DataType.Name(number)
    except ValueError:
        return f"dtype{number}"
    return name[3:].lower()


# py_seq_tensor.cc: an int is made an int32 where it fits into one.
_INT32, _INT64 = "int32", "int64"
DTYPE_OF_PYTHON = {
    _INT32: "int32",
    _INT64: "int64",
    bool: "bool",
    float: "float",
    complex: "complex128",
    str: "string",
    bytes: "string",
}


def python_kind(value: Any) -> Any:
    """Return a key for a Python value that is equal for values that become the same dtype."""
    if type(value) is int:
        return _INT32 if -(1 << 31) <= value < 1 << 31 else _INT64
    return type(value)


def tensors_of(arg: Any, value: Any) -> Iterator[Any]:
    """Return what is made a tensor each: of an argument that takes one, a list is but one."""
    if arg is not None and not arg.number_attr and not arg.type_list_attr:
        return iter((value,))
    return flat((value,))


def flat(values: Any) -> Iterator[Any]:
    """Return the values within nested lists."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from flat(value)
        else:
            yield value


def text(value: Any) -> str:
    """Return text as TensorFlow passes it: `str`, `bytes`, or None for none."""
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else (value or "")


def attribute(kind: str, value: Any) -> Any:
    """Write an attribute of the kind that its OpDef states: dtypes come as numbers."""
    if kind == "type" and isinstance(value, int):
        return dtype_name(value)
    if kind == "list(type)" and isinstance(value, (list, tuple)):
        return [dtype_name(v) if isinstance(v, int) else as_json(v) for v in value]
    if kind == "bool":
        return bool(value)
    if kind == "shape" and isinstance(value, (list, tuple)):
        return {"shape": [-1 if d is None else int(d) for d in value]}
    return as_json(value)


def given_name(attributes: dict[str, Any]) -> str:
    """Return a variable's readable name, if the version has one; its shared name is random."""
    value = attributes.get("debug_name")
    return str(value.get("s", "")) if isinstance(value, dict) else ""


def bytes_of(dtype: str | None, sizes: list[int] | None) -> int | None:
    """Return what a variable holds, in bytes; None where dtype or shape are unknown."""
    if dtype is None or sizes is None or any(s < 0 for s in sizes):
        return None
    try:
        total = int(loaded("tensorflow.python.framework.dtypes").as_dtype(dtype).size)
    except (TypeError, KeyError):
        return None
    for size in sizes:
        total *= size
    return total

"""Attributes of ops, as the journal writes them (the form is the capture file's)."""

from __future__ import annotations

from typing import Any, List, Optional

from ..process.hooks import loaded

_LONGEST = 1000


def as_json(value: Any) -> Any:  # noqa: ANN401, PLR0911 - whatever an op takes, to JSON
    """Write an attribute's value: a dtype as its name, a string as `{"s": ...}`, and so on.

    Args:
        value: As the generated op functions of TensorFlow pass it: Python scalars, strings, bytes,
            lists, DTypes or their numbers' proto enum, shapes, or protos.
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


def shape(value: Any) -> Optional[List[int]]:  # noqa: ANN401 - a TensorShape
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

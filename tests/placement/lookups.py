"""Asks the TensorFlow that is imported: is there a kernel, and what types have the outputs?

A question is an op, a device type, attributes in the capture file's encoding, and input types. The
answer: whether TensorFlow finds a kernel (None where it has no such op), and the types of the
outputs of a node with these attributes and inputs; a text where TensorFlow refuses to make it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, node_def_pb2, tensor_shape_pb2, types_pb2
from tensorflow.python.framework import op_def_registry
from tensorflow.python.util import _pywrap_kernel_registry


def enum(dtype: str) -> int:
    """Return the number of a type, given as the capture file names it."""
    return int(types_pb2.DataType.Value("DT_" + dtype.upper()))


# How an attribute's value in a capture file becomes that of an AttrValue.
PROTOS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "type": lambda value: {"type": enum(value)},
    "string": lambda value: {"s": value["s"].encode()},
    "int": lambda value: {"i": value},
    "float": lambda value: {"f": float(value["float"]) if isinstance(value, dict) else value},
    "bool": lambda value: {"b": value},
    "func": lambda value: {"func": attr_value_pb2.NameAttrList(name=value["func"])},
    "shape": lambda value: {"shape": shape(value["shape"])},
}


def shape(sizes: list[int] | None) -> tensor_shape_pb2.TensorShapeProto:
    """Return a shape; None is one of unknown rank."""
    dims = [tensor_shape_pb2.TensorShapeProto.Dim(size=size) for size in sizes or ()]
    return tensor_shape_pb2.TensorShapeProto(dim=dims, unknown_rank=sizes is None)


def attribute(kind: str, content: Any) -> attr_value_pb2.AttrValue:  # noqa: ANN401 - JSON
    """Return an attribute of the capture file as an AttrValue."""
    if not kind.startswith("list("):
        return attr_value_pb2.AttrValue(**PROTOS[kind](content))
    value = attr_value_pb2.AttrValue()
    value.list.SetInParent()
    for item in content:
        ((field, one),) = PROTOS[kind[5:-1]](item).items()
        getattr(value.list, field).append(one)
    return value


def node(op: str, attributes: dict[str, Any]) -> node_def_pb2.NodeDef:
    """Return a node of an op, without inputs."""
    kinds = {a.name: a.type for a in op_def_registry.get(op).attr}
    made = node_def_pb2.NodeDef(name="node", op=op)
    for name, content in attributes.items():
        made.attr[name].CopyFrom(attribute(kinds[name], content))
    return made


def has_kernel(op: str, device: str, attributes: dict[str, Any]) -> bool:
    """Return whether TensorFlow finds a kernel, by FindKernelDef."""
    asked = node(op, attributes)
    asked.device = f"/job:localhost/replica:0/task:0/device:{device}:0"
    return bool(_pywrap_kernel_registry.TryFindKernelClass(asked.SerializeToString()))


def output_types(op: str, attributes: dict[str, Any], inputs: list[str]) -> list[str] | str:
    """Make a node with such inputs, and return the types of its outputs, or why it cannot be."""
    with tf.Graph().as_default() as graph:
        definition = graph.as_graph_def()
        asked = node(op, attributes)
        for index, dtype in enumerate(inputs):
            source = definition.node.add(name=f"in{index}", op="Placeholder")
            if dtype.endswith("_ref"):
                source.op = "VariableV2"
                source.attr["shape"].shape.SetInParent()
            source.attr["dtype"].type = enum(dtype.removesuffix("_ref"))
            asked.input.append(source.name)
        definition.node.append(asked)
        try:
            tf.import_graph_def(definition, name="")
        except (ValueError, tf.errors.OpError) as error:
            return str(error)
        made = graph.get_operation_by_name("node").outputs
        names = (types_pb2.DataType.Name(tensor.dtype.as_datatype_enum) for tensor in made)
        return [name.removeprefix("DT_").lower() for name in names]


def answers(
    questions: Iterable[tuple[str, str, dict[str, Any], list[str] | None]],
) -> list[tuple[bool | None, list[str] | str | None]]:
    """Answer each question."""
    found = []
    for op, device, attributes, inputs in questions:
        known = op_def_registry.get(op) is not None
        has = has_kernel(op, device, attributes) if known and device else None
        types = output_types(op, attributes, inputs) if known and inputs is not None else None
        found.append((has, types))
    return found


def device_types(devices: Sequence[str]) -> list[str | None]:
    """Return the type of device that each name names, None for none."""
    return [tf.DeviceSpec.from_string(device).device_type for device in devices]

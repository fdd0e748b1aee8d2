"""The messages of an XSpace for protobuf's own parser, made without importing TensorFlow.

The decoder's oracle. Numbers and types are those of `tsl/profiler/protobuf/xplane.proto`, the same
from TensorFlow 2.2 to 2.21; `tests/test_xspace_proto.py` compares them with the installed ones.
"""

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "traceanalyzer.oracle"  # not TensorFlow's: a pool refuses two files with the same names

# Message -> field -> number, type. `*` repeats, `?` stands in the message's oneof, `<int64,M>` is a
# map. What is neither a scalar nor a map is a message.
MESSAGES: Final = {
    "XSpace": {
        "planes": (1, "XPlane*"),
        "errors": (2, "string*"),
        "warnings": (3, "string*"),
        "hostnames": (4, "string*"),
    },
    "XPlane": {
        "id": (1, "int64"),
        "name": (2, "string"),
        "lines": (3, "XLine*"),
        "event_metadata": (4, "<int64,XEventMetadata>"),
        "stat_metadata": (5, "<int64,XStatMetadata>"),
        "stats": (6, "XStat*"),
    },
    "XLine": {
        "id": (1, "int64"),
        "display_id": (10, "int64"),
        "name": (2, "string"),
        "display_name": (11, "string"),
        "timestamp_ns": (3, "int64"),
        "duration_ps": (9, "int64"),
        "events": (4, "XEvent*"),
    },
    "XEvent": {
        "metadata_id": (1, "int64"),
        "offset_ps": (2, "int64?"),
        "num_occurrences": (5, "int64?"),
        "duration_ps": (3, "int64"),
        "stats": (4, "XStat*"),
    },
    "XStat": {
        "metadata_id": (1, "int64"),
        "double_value": (2, "double?"),
        "uint64_value": (3, "uint64?"),
        "int64_value": (4, "int64?"),
        "str_value": (5, "string?"),
        "bytes_value": (6, "bytes?"),
        "ref_value": (7, "uint64?"),
    },
    "XEventMetadata": {
        "id": (1, "int64"),
        "name": (2, "string"),
        "display_name": (4, "string"),
        "metadata": (3, "bytes"),
        "stats": (5, "XStat*"),
        "child_id": (6, "int64*"),
    },
    "XStatMetadata": {"id": (1, "int64"), "name": (2, "string"), "description": (3, "string")},
}

_ONEOF: Final = {"XEvent": "data", "XStat": "value"}


def file_descriptor(package: str = _PACKAGE) -> descriptor_pb2.FileDescriptorProto:
    """Describe the seven messages, as protoc would."""
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package.replace('.', '/')}/xplane.proto", package=package, syntax="proto3"
    )
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        if name in _ONEOF:
            message.oneof_decl.add(name=_ONEOF[name])
        for field, (number, kind) in fields.items():
            _add_field(message, f".{package}", field, number, kind)
    return file


def _add_field(
    message: descriptor_pb2.DescriptorProto, scope: str, name: str, number: int, kind: str
) -> None:
    Field = descriptor_pb2.FieldDescriptorProto  # noqa: N806  # a class
    if kind.startswith("<"):  # a map is sugar for a repeated message of key and value
        key, value = kind[1:-1].split(",")
        entry_name = "".join(part.capitalize() for part in name.split("_")) + "Entry"
        entry = message.nested_type.add(name=entry_name)
        entry.options.map_entry = True
        _add_field(entry, scope, "key", 1, key)
        _add_field(entry, scope, "value", 2, value)
        field = message.field.add(
            name=name,
            number=number,
            label=Field.LABEL_REPEATED,
            type=Field.TYPE_MESSAGE,
            type_name=f"{scope}.{message.name}.{entry_name}",
        )
        return
    scalar = kind.rstrip("*?")
    field = message.field.add(
        name=name,
        number=number,
        label=Field.LABEL_REPEATED if kind.endswith("*") else Field.LABEL_OPTIONAL,
    )
    if scalar in MESSAGES:
        field.type = Field.TYPE_MESSAGE
        field.type_name = f"{scope}.{scalar}"
    else:
        field.type = Field.Type.Value(f"TYPE_{scalar.upper()}")
    if kind.endswith("?"):
        field.oneof_index = 0


_pool = descriptor_pool.DescriptorPool()
_pool.AddSerializedFile(file_descriptor().SerializeToString())
# Made at run time, so to a type checker it is Any.
XSpace: Any = message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{_PACKAGE}.XSpace"))

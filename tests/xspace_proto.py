"""The profiler's messages of the installed TensorFlow, for protobuf's own parser.

They are read from the generated modules, since the import of TensorFlow takes seconds. Each is in a
pool of its own, so that TensorFlow and XProf can add theirs.
"""

import ast
import importlib.util
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

_SCALARS: Final = {
    FieldDescriptorProto.TYPE_INT64: "int64",
    FieldDescriptorProto.TYPE_UINT64: "uint64",
    FieldDescriptorProto.TYPE_DOUBLE: "double",
    FieldDescriptorProto.TYPE_STRING: "string",
    FieldDescriptorProto.TYPE_BYTES: "bytes",
}


def _file(name: str) -> FileDescriptorProto:
    """The descriptor in a generated module of `tsl/profiler/protobuf`."""
    spec = importlib.util.find_spec("tensorflow")
    assert spec is not None
    assert spec.origin is not None
    module = Path(spec.origin).parent / "tsl" / "profiler" / "protobuf" / f"{name}_pb2.py"
    (serialized,) = (
        ast.literal_eval(node.args[0])
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "AddSerializedFile"
    )
    return FileDescriptorProto.FromString(serialized)


def message_class(name: str, message: str) -> Any:  # noqa: ANN401  # made at run time
    """The class of a message in a file of `tsl/profiler/protobuf`."""
    file, pool = _file(name), descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    found = pool.FindMessageTypeByName(f"{file.package}.{message}")
    return message_factory.GetMessageClass(found)


def _fields(message: DescriptorProto) -> dict[str, tuple[int, str]]:
    values = {entry.name: entry.field[1].type_name for entry in message.nested_type}
    found = {}
    for field in message.field:
        name = field.type_name.rpartition(".")[2]
        many = "*" if field.label == field.LABEL_REPEATED else ""
        kind = (name or _SCALARS[field.type]) + many
        if name in values:
            kind = f"<int64,{values[name].rpartition('.')[2]}>"
        found[field.name] = field.number, kind
    return found


XSpace: Any = message_class("xplane", "XSpace")
# Message -> field -> number and type; `*` repeats, `<int64,M>` is a map of the message M.
MESSAGES: Final = {message.name: _fields(message) for message in _file("xplane").message_type}

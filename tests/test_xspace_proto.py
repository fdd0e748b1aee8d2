"""The oracle's messages are those of the installed TensorFlow."""

import ast
import importlib.util
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from tests.xspace_proto import MESSAGES, file_descriptor


def installed_descriptor() -> descriptor_pb2.FileDescriptorProto:
    """Read TensorFlow's descriptor out of its generated module, which takes seconds to import."""
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or spec.origin is None:
        pytest.skip("TensorFlow is not installed")
    module = Path(spec.origin).parent / "tsl" / "profiler" / "protobuf" / "xplane_pb2.py"
    if not module.exists():
        pytest.skip(f"this TensorFlow has no {module.name}")
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "AddSerializedFile":
            serialized = ast.literal_eval(node.args[0])
            return descriptor_pb2.FileDescriptorProto.FromString(serialized)
    pytest.fail("the generated module registers no descriptor")


def fields(message: descriptor_pb2.DescriptorProto) -> set[tuple[object, ...]]:
    """What decides how a message is read."""
    own = {
        (
            field.name,
            field.number,
            field.type,
            field.label,
            field.type_name.rpartition(".")[2],
            message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else None,
        )
        for field in message.field
    }
    maps = {
        (entry.name, entry.options.map_entry, *sorted(fields(entry), key=repr))
        for entry in message.nested_type
    }
    return own | maps


def test_messages_are_those_of_the_installed_tensorflow() -> None:
    installed = {m.name: fields(m) for m in installed_descriptor().message_type}
    ours = {m.name: fields(m) for m in file_descriptor().message_type}
    assert ours == installed
    assert set(ours) == set(MESSAGES)

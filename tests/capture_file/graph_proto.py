"""TensorFlow's own messages of a graph, from its generated modules, without importing it."""

import ast
import importlib.util
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def _installed(proto: str) -> descriptor_pb2.FileDescriptorProto:
    """Read the descriptor out of a generated module, which takes seconds to import."""
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or spec.origin is None:
        pytest.skip("TensorFlow is not installed", allow_module_level=True)
    module = Path(spec.origin).parents[1] / proto.replace(".proto", "_pb2.py")
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "AddSerializedFile":
            serialized = ast.literal_eval(node.args[0])
            return descriptor_pb2.FileDescriptorProto.FromString(serialized)
    pytest.fail(f"{module.name} registers no descriptor")


def _add(proto: str, pool: descriptor_pool.DescriptorPool, known: set[str]) -> None:
    if proto in known:
        return
    known.add(proto)
    file = _installed(proto)
    for needed in file.dependency:
        _add(needed, pool, known)
    pool.AddSerializedFile(file.SerializeToString())


_pool = descriptor_pool.DescriptorPool()
_add("tensorflow/core/framework/graph.proto", _pool, set())
# Made at run time, so to a type checker they are Any.
GraphDef: Any = message_factory.GetMessageClass(_pool.FindMessageTypeByName("tensorflow.GraphDef"))
DataType: Any = _pool.FindEnumTypeByName("tensorflow.DataType")

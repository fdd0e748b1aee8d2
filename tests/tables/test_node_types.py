"""What types a node has by its attributes, and when nothing is said of them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from tests.capture_file.graph_proto import GraphDef
from traceanalyzer.capture_file.attributes import AttributePool
from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.placement.registry import load, nearest, supported
from traceanalyzer.tables.graph_nodes import NOT_KNOWN, NodeTypes, Types

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traceanalyzer.placement.op_definitions import Argument, OpDefinition

NEWEST = supported()[-1]
LATER = "2.99.0"  # no table is of that version


def types_in(
    attributes: Mapping[str, Any],
    version: str | None = NEWEST,
    **more: Any,  # noqa: ANN401 - fields of `CaptureFile`
) -> NodeTypes:
    """The types of nodes with these attributes, set 0 of a capture file."""
    environment: dict[str, Any] = {} if version is None else {"tensorflow": {"version": version}}
    environment |= more.pop("environment", {})
    lists = {"environment": environment, "attributes": (attributes,), **more}
    return NodeTypes(CaptureFile(tool="0", host="h", complete=True, **lists))


def ran(op: str, version: str | None = NEWEST, **attributes: Any) -> Types:  # noqa: ANN401 - values
    return types_in(attributes, version).of(op, 0)


class TestThatRan:
    @pytest.mark.parametrize(
        ("op", "attributes", "inputs", "outputs"),
        [
            (
                "ConcatV2",
                {"N": 3, "T": "float", "Tidx": "int64"},
                "float;float;float;int64",
                "float",
            ),
            ("IdentityN", {"T": ["float", "int32"]}, "float;int32", "float;int32"),
            ("Assign", {"T": "float"}, "float_ref;float", "float_ref"),
            ("_FusedMatMul", {"T": "float", "num_args": 1}, "float;float;float", "float"),
            ("_MklMatMul", {"T": "bfloat16"}, "bfloat16;bfloat16", "bfloat16"),
        ],
    )
    def test_attributes_give_them(
        self, op: str, attributes: dict[str, Any], inputs: str, outputs: str
    ) -> None:
        assert ran(op, **attributes) == Types(inputs=inputs, outputs=outputs)

    def test_what_is_left_out_is_the_default(self) -> None:
        """`Tidx` of a reduction is int32 unless it is told."""
        assert ran("Sum", T="float") == Types(inputs="float;int32", outputs="float")

    def test_nor_of_one_that_lacks_an_attribute(self) -> None:
        assert ran("MatMul") == NOT_KNOWN
        assert ran("_FusedMatMul", T="float") == NOT_KNOWN

    def test_nor_of_a_list_that_may_have_been_cut(self) -> None:
        """As the capture file keeps it: read from TensorFlow's own message."""

        def kept(length: int) -> Mapping[str, Any]:
            value = GraphDef().node.add().attr["T"]
            value.list.type.extend([1] * length)
            content = value.SerializeToString()
            size = bytes([len(content) & 0x7F | 0x80, len(content) >> 7])
            pool = AttributePool()
            pool.add_entries([b"\x0a\x01T\x12" + size + content])
            return pool.sets[0]

        assert types_in(kept(999)).of("IdentityN", 0).inputs == ";".join(["float"] * 999)
        assert types_in(kept(1500)).of("IdentityN", 0) == NOT_KNOWN


class TestOfAnotherVersion:
    """No table is of the program's own: the nearest is believed where it cannot be wrong."""

    @pytest.mark.parametrize("version", [None, LATER, "2.13.0+nv23.7"])
    def test_a_definition_with_the_same_attributes_is_the_same(self, version: str | None) -> None:
        definition = nearest(version).registry.definition("MatMul")
        assert definition is not None
        attributes = dict.fromkeys(definition.attributes, False) | {"T": "float"}

        found = ran("MatMul", version, **attributes, _class=[{"s": "loc:@a"}])

        assert found == Types(inputs="float;float", outputs="float")

    @pytest.mark.parametrize(
        "attributes",
        [
            {"T": "float", "sorted": True},  # as of 2.12
            {"T": "float", "sorted": True, "Tk": "int32", "index_type": "int32", "Tnew": "half"},
        ],
    )
    def test_one_with_others_is_another(self, attributes: dict[str, Any]) -> None:
        assert ran("TopKV2", LATER, **attributes) == NOT_KNOWN

    def test_ops_of_the_runtimes_own_may_change(self) -> None:
        attributes = {"T": "float", "op_names": [{"s": "Abs"}]}

        assert ran("_UnaryOpsComposition", LATER, **attributes) == NOT_KNOWN
        assert ran("_UnaryOpsComposition", NEWEST, **attributes).inputs == "float"

    def test_types_only_change_with_attributes(self) -> None:
        """The rule that this rests on, from each version that there is a table of to the next."""
        changed = set()
        for older, newer in pairwise(map(load, supported())):
            for op in older.ops:
                old, new = older.definition(op), newer.definition(op)
                if op.startswith("_") or old is None or new is None or form(old) == form(new):
                    continue
                changed.add(op)
                assert {*old.attributes} != {*new.attributes}, (op, older, newer)
        assert "TopKV2" in changed or supported()[0] > "2.12"


def form(definition: OpDefinition) -> tuple[tuple[Any, ...], ...]:
    """What the types of an op hang on, but for names of its arguments."""

    def of(argument: Argument) -> tuple[Any, ...]:
        types = argument.type, argument.type_attr, argument.type_list_attr
        return (*types, argument.number_attr, argument.is_ref)

    return tuple(of(a) for arguments in (definition.inputs, definition.outputs) for a in arguments)

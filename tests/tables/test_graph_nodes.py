"""Which node an op of a trace is, its types, and what must be the same before anything is said."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.capture_file.graph_proto import GraphDef
from tests.capture_files import CPU, GPU, Book, Node, cpu_partition, node, partition
from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.capture_file.graph_def import AttributePool
from traceanalyzer.placement.kernel_tables import Argument, OpDefinition
from traceanalyzer.placement.registry import load, nearest, supported
from traceanalyzer.tables.graph_nodes import NOT_KNOWN, GraphNodes, NodeTypes, OpRecord, TensorTypes

F = "__inference_f_91"


def known(found: OpRecord | None) -> tuple[int | None, str | None, str | None] | None:
    """Line, request and device of what was found."""
    if found is None:
        return None
    return (found.frame.line if found.frame else None, found.requested_device, found.device)


def find(book: Book, name: str, op_type: str, function: str = F) -> tuple | None:
    return known(GraphNodes(book.capture_file()).find(function, name, op_type))


class TestInItsFunction:
    def test_line_request_and_device(self) -> None:
        book = Book()
        book.function(F, node("mm", "MatMul", line=7, asked="/device:GPU:0"))

        assert find(book, "mm", "MatMul") == (7, "/device:GPU:0", CPU)

    def test_what_ran_decides_on_the_type_and_the_input_on_the_request(self) -> None:
        """OneDNN's rewrite and grappler's fusions keep the name of what they compute."""
        book = Book()
        book.function(
            F,
            node("mm", "MatMul", line=7, asked="/CPU:0"),
            ran=(cpu_partition(node("mm", "_MklMatMul")),),
        )

        assert find(book, "mm", "_MklMatMul") == (7, "/CPU:0", CPU)

    def test_a_node_that_was_inlined_is_its_functions(self) -> None:
        book = Book()
        book.define("__inference_inner_42", node("inner_mm", "MatMul", line=30))
        inlined = node(
            "StatefulPartitionedCall/inner_mm",
            "MatMul",
            asked="/device:GPU:0",
            origin=("__inference_inner_42", "inner_mm"),
        )
        bare = node("StatefulPartitionedCall/inner_mm", "_MklMatMul")
        book.function(
            F, node("StatefulPartitionedCall", "NoOp", line=12), inlined, ran=(cpu_partition(bare),)
        )

        assert find(book, inlined.name, "_MklMatMul") == (30, "/device:GPU:0", CPU)


class TestWithoutPartitions:
    """As with TensorFlow 2.12, which does not write down what ran."""

    @pytest.mark.parametrize(("name", "op_type"), [("mm", "MatMul"), ("mm", "_MklMatMul")])
    def test_the_placers_input_is_enough_for_a_line(self, name: str, op_type: str) -> None:
        book = Book()
        book.function(F, node("mm", "MatMul", line=7, asked="/CPU:0"), ran=())

        assert find(book, name, op_type) == (7, "/CPU:0", None)

    def test_a_node_may_have_been_given_another_type(self) -> None:
        book = Book()
        book.function(F, node("scale", "RealDiv", line=7), ran=())

        assert find(book, "scale", "Mul") == (7, "", None)
        assert find(book, "scale", "Mul", function="__inference_g_2") is None


class TestSeveralInstances:
    def book(self, second: Node, ran: tuple) -> Book:
        book = Book()
        book.function(F, node("mm", "MatMul", line=7, asked="/CPU:0"))
        book.instance(F, second, ran=ran)
        return book

    def test_on_different_devices_prove_none(self) -> None:
        again = node("mm", "MatMul", asked="/CPU:0")

        book = self.book(again, (partition(GPU, again),))

        assert find(book, "mm", "MatMul") == (7, "/CPU:0", None)
        found = GraphNodes(book.capture_file()).find(F, "mm", "MatMul")
        assert found is not None
        assert found.devices == (CPU, GPU)

    def test_with_different_requests_tell_nothing(self) -> None:
        again = node("mm", "MatMul", asked="/GPU:0")

        assert find(self.book(again, (cpu_partition(again),)), "mm", "MatMul") is None


class TestGrapplersNames:
    @pytest.mark.parametrize(
        ("made", "op_type", "base"),
        [
            ("a/ArithmeticOptimizer/AddOpsRewrite_Add_1", "AddN", "a/Add_1"),
            ("ConstantFolding/a/truediv_recip", "Reciprocal", "a/truediv"),
            ("mm-0-CastToFp16-AutoMixedPrecision", "Cast", "mm"),
        ],
    )
    def test_lead_to_the_node_they_were_made_from(self, made: str, op_type: str, base: str) -> None:
        book = Book()
        book.function(
            F,
            node(base, "Any", line=7, asked="/CPU:0"),
            node("elsewhere", "Any", line=8),
            ran=(cpu_partition(node(made, op_type)),),
        )

        assert find(book, made, op_type) == (7, "/CPU:0", CPU)

    @pytest.mark.parametrize("name", ["Func/a/call/input/_3", "a/call/enter/_9"])
    def test_what_stands_in_for_a_call_or_a_loop_is_of_its_line(self, name: str) -> None:
        book = Book()
        book.define(F, node("a/call", "While", line=7), node("a/other", "Mul", line=8))
        book.function(F, node(name, "Identity", asked=CPU))

        assert find(book, name, "Identity") == (7, "/device:CPU:0", CPU)


class TestWhereTheFunctionIsNotKnown:
    def datasets(self, *lines: int) -> GraphNodes:
        book = Book()
        for k, line in enumerate(lines):
            book.function(f"__inference_map_{k}", node("mul", "Mul", line=line))
        book.function(F, node("mul", "Mul", line=99))
        book.thread(0, F)
        return GraphNodes(book.capture_file())

    def test_a_datasets_op_is_of_a_function_that_is_never_called_eagerly(self) -> None:
        assert known(self.datasets(5).find_in_datasets("mul", "Mul")) == (5, "", CPU)

    def test_functions_that_differ_leave_it_open(self) -> None:
        assert self.datasets(5, 6).find_in_datasets("mul", "Mul") is None
        assert known(self.datasets(5, 5).find_in_datasets("mul", "Mul")) == (5, "", CPU)

    def test_a_session_whose_graph_grew(self) -> None:
        """A dump shows the device that a variable kept in place of the requested one."""
        book = Book()
        book.define("", node("v", "VariableV2", line=3))
        book.instance("unknown_graph", node("v", "VariableV2"), ran=())
        grown = (node("v", "VariableV2", asked=CPU), node("mm", "MatMul"))
        book.instance("unknown_graph", *grown, ran=(cpu_partition(*grown),))
        (graphs,) = book.capture_file().functions
        placed = [replace(i, assigned=(CPU,) * len(i.input)) for i in graphs.instances]
        capture_file = book.capture_file(functions=(replace(graphs, instances=tuple(placed)),))

        assert known(GraphNodes(capture_file).find_in_any("v", "VariableV2"))[:2] == (3, "")

    def test_a_function_that_may_as_well_be_meant(self) -> None:
        book = Book()
        book.define("", node("mul", "Mul", line=14))
        book.function(F, node("mul", "Mul", line=99))

        assert GraphNodes(book.capture_file()).find_in_any("mul", "Mul") is None


class TestTypes:
    FLOAT, HALF = {"T": "float"}, {"T": "half"}
    VERSION = {"tensorflow": {"version": "2.21.0"}}  # noqa: RUF012 - never changed

    def types(
        self, book: Book, name: str, op_type: str, function: str = F
    ) -> tuple[str | None, str | None]:
        """Of what is found, where set 0 holds float, 1 half and 2 both with three inputs."""
        fused = {"T": "float", "num_args": 1}
        capture_file = book.capture_file(
            attributes=(self.FLOAT, self.HALF, fused), environment=self.VERSION
        )
        nodes = GraphNodes(capture_file)
        found = (
            nodes.find(function, name, op_type) if function else nodes.find_in_any(name, op_type)
        )
        assert found is not None
        return found.input_types, found.output_types

    def test_are_those_of_what_ran(self) -> None:
        """Grappler's mixed precision keeps name and type of a node."""
        book = Book()
        ran = cpu_partition(node("mm", "MatMul", attributes=1))
        book.function(F, node("mm", "MatMul", line=7, attributes=0), ran=(ran,))

        assert self.types(book, "mm", "MatMul") == ("half;half", "half")


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


def ran(op: str, version: str | None = NEWEST, **attributes: Any) -> TensorTypes:  # noqa: ANN401 - values
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
        assert ran(op, **attributes) == TensorTypes(inputs=inputs, outputs=outputs)

    def test_what_is_left_out_is_the_default(self) -> None:
        """`Tidx` of a reduction is int32 unless it is told."""
        assert ran("Sum", T="float") == TensorTypes(inputs="float;int32", outputs="float")

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

        assert found == TensorTypes(inputs="float;float", outputs="float")

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

    @pytest.mark.slow
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

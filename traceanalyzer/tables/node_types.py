"""The types of the inputs and outputs of a captured graph's node.

A trace of host tracer level 2 has no types, and one of level 3 none of resources and references
(op_kernel.cc, ShapeTraceString). A node's attributes have them, and TensorFlow's definition of its
op says which ones. Only a definition that is sure to be the one that the program had is believed.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from traceanalyzer.capture_file.function_records import UNKNOWN
from traceanalyzer.placement.op_definitions import AttributesError
from traceanalyzer.placement.registry import nearest

if TYPE_CHECKING:
    from traceanalyzer.capture_file.document import Attributes, CaptureFile
    from traceanalyzer.placement.op_definitions import Argument, OpDefinition
    from traceanalyzer.placement.registry import Nearest


# Entries that a capture file keeps of a list (capture_file/attributes.py).
_LONGEST_LIST: Final = 1000
# arithmetic_optimizer.cc, RemoveRedundantBitcastStage: gives the second of two the first's source.
_RETYPED: Final = "Bitcast"
_MIXED_PRECISION: Final = "mixed_precision"  # in names of options and variables that turn it on


class Types(NamedTuple):
    """The types of a node's tensors, `float;int32`, "" for no tensor, None where unknown."""

    inputs: str | None  #: `resource` for a handle, `float_ref` for a reference
    outputs: str | None


NOT_KNOWN: Final = Types(inputs=None, outputs=None)


class NodeTypes:
    """Finds the types of nodes of one capture file."""

    def __init__(self, capture_file: CaptureFile) -> None:
        self._capture_file = capture_file
        self._known: dict[tuple[str, int], Types] = {}

    def that_ran(self, op: str, attributes: int) -> Types:
        """Return the types of a node of a partition, by its attribute set; -1 for none."""
        key = (op, attributes)
        if key not in self._known:
            self._known[key] = self._find(op, attributes)
        return self._known[key]

    def that_was_placed(self, op: str, attributes: int) -> Types:
        """Return those types of a node of the placer's input that grappler cannot change.

        It converts to another precision if configured to (auto_mixed_precision.cc), and removes
        inputs of ops that have any number of them (constant_folding.cc: of `AddN`, `ConcatV2`).
        """
        found = self.that_ran(op, attributes)
        if found is NOT_KNOWN or op == _RETYPED or self._mixes_precision:
            return NOT_KNOWN
        definition = self._definition(op)
        if definition is None or any(a.number_attr or a.type_list_attr for a in definition.inputs):
            return found._replace(inputs=None)
        return found

    def that_became(self, op: str, was: str, attributes: int) -> Types:
        """Return the types of an op that has the name of a node of the placer's input.

        An op that a rewrite made from several nodes has the name of the last and computes its
        value, but may have more inputs (remapper.cc, mkl_layout_pass.cc). The runtime's own ops
        have the `T` of the nodes that they are made from.
        """
        found = self.that_was_placed(was, attributes)
        definition = self._definition(op)
        if op == was or found is NOT_KNOWN or definition is None:
            return found if op == was else NOT_KNOWN
        if not op.startswith("_"):
            is_its_value = len(definition.outputs) == 1 and ";" not in (found.outputs or ";")
            return Types(inputs=None, outputs=found.outputs if is_its_value else None)
        if not self._nearest.exact:
            return NOT_KNOWN
        own = self._capture_file.attribute_set(attributes)
        return Types(_types_by(definition.inputs, own), _types_by(definition.outputs, own))

    def _find(self, op: str, index: int) -> Types:
        definition = None if index == UNKNOWN else self._definition(op)
        if definition is None:
            return NOT_KNOWN
        attributes = self._capture_file.attribute_set(index)
        if any(isinstance(v, list) and len(v) >= _LONGEST_LIST for v in attributes.values()):
            return NOT_KNOWN
        if not self._nearest.exact and not _fits(definition, attributes):
            return NOT_KNOWN
        try:
            types = definition.input_types(attributes), definition.output_types(attributes)
        except AttributesError:
            return NOT_KNOWN
        return Types(*map(";".join, types))

    def _definition(self, op: str) -> OpDefinition | None:
        """Return an op's definition; None for one of a library of the program's own."""
        return self._nearest.registry.definition(op)

    @cached_property
    def _mixes_precision(self) -> bool:
        """Whether grappler may have been configured to compute in another precision."""
        options = (self._capture_file.devices or {}).get("optimizer_options")
        variables = (self._capture_file.environment or {}).get("variables")
        of_sessions = [dict(config.rewrites) for config in self._capture_file.session_configs]
        return any(
            _MIXED_PRECISION in name.lower() and bool(value) and value != "OFF"
            for settings in (options, variables, *of_sessions)
            if isinstance(settings, dict)
            for name, value in settings.items()
        )

    @cached_property
    def _nearest(self) -> Nearest:
        return nearest(self._capture_file.tensorflow_version)


def _types_by(arguments: tuple[Argument, ...], attributes: Attributes) -> str | None:
    """Return the types that attributes determine; None where any attribute is missing."""
    types = [a.type or attributes.get(a.type_attr) for a in arguments]
    known = [
        t + "_ref" if a.is_ref else t
        for a, t in zip(arguments, types, strict=True)
        if isinstance(t, str) and not (a.number_attr or a.type_list_attr)
    ]
    return None if len(known) < len(types) else ";".join(known)


def _fits(definition: OpDefinition, attributes: Attributes) -> bool:
    """Tell whether an op of an unknown version has this definition of another version.

    A public op's types may change from one version to the next only as its attributes do
    (op_def_util.cc, OpDefCompatible): one with just the attributes of the node is the node's.
    """
    own = {name for name in attributes if not name.startswith("_")}
    return not definition.name.startswith("_") and own == {*definition.attributes}

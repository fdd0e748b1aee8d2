"""Which type a variable or tensor could have instead of one that no GPU kernel takes.

What is said here holds in every version of TensorFlow that there is a table of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from traceanalyzer.model import Fix
from traceanalyzer.placement.devices import GPU
from traceanalyzer.placement.kernel_types import python_name, types_taken
from traceanalyzer.placement.registry import load, supported
from traceanalyzer.placement.support import all_on_host

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from traceanalyzer.capture_file.document import Json
    from traceanalyzer.placement.op_definitions import OpDefinition


class Target(NamedTuple):
    """A type to cast to, and what becomes of the values: "" where they are the same."""

    dtype: str
    loss: str = ""

    @property
    def in_brackets(self) -> str:
        """The loss, for the end of a clause."""
        return f" ({self.loss})" if self.loss else ""


# See https://www.tensorflow.org/xla/known_issues, "tf.Variable on a different device".
XLA_REFUSES: Final = (
    " XLA uses only variables in GPU memory: on a GPU, a function with jit_compile=True that uses "
    "an int32 variable fails with `Trying to access resource ... located in device CPU:0`."
)
_TO_2_24: Final = "exact for integers up to 2**24, rounded beyond"
_TO_2_53: Final = "exact for integers up to 2**53, rounded beyond; slow on most GPUs"
_BELOW_2_31: Final = "correct only if every value is below 2**31"
_DOUBLE: Final = Target("double", "the values are kept; slow on most GPUs")
# What holds the values of a type: the best first. A loss is said; a type that is worse is not here.
TARGETS: Final = {
    "bool": (Target("uint8"), Target("int8"), Target("int32"), Target("float")),
    "int8": (Target("int16"), Target("int32"), Target("float"), Target("int64")),
    "uint8": (Target("int16"), Target("int32"), Target("float"), Target("int64")),
    "int16": (Target("int32"), Target("float"), Target("int64")),
    "uint16": (Target("int32"), Target("float"), Target("int64")),
    "int32": (Target("int64"), Target("float", _TO_2_24), _DOUBLE),
    "uint32": (
        Target("int64"),
        Target("float", _TO_2_24),
        _DOUBLE,
        Target("int32", _BELOW_2_31),
    ),
    "int64": (
        Target("float", _TO_2_24),
        Target("double", _TO_2_53),
        Target("int32", _BELOW_2_31),
    ),
    "uint64": (
        Target("float", _TO_2_24),
        Target("double", _TO_2_53),
        Target("int32", _BELOW_2_31),
    ),
    "half": (Target("float"),),
    "bfloat16": (Target("float"),),
    "float": (_DOUBLE,),
    "double": (Target("float", "about 7 digits instead of 16"),),
    "complex64": (Target("complex128", "the values are kept; slow on most GPUs"),),
    "complex128": (Target("complex64", "about 7 digits instead of 16"),),
}


def works_as(op: str, given: Mapping[str, Json], attributes: Collection[str], value: Json) -> bool:
    """Return whether a node would compute on a GPU with other attributes, in every version."""
    changed = {**given, **dict.fromkeys(attributes, value)}
    for registry in map(load, supported()):
        definition = registry.definition(op)
        if definition is None:
            continue
        kernel = registry.find(op, GPU, changed)
        if kernel is None:
            return False
        if is_carried(definition, attributes) and all_on_host(kernel, definition, changed):
            return False
    return True


def is_carried(definition: OpDefinition, attributes: Collection[str]) -> bool:
    """Return whether an argument of an op has a type that any of these attributes gives."""
    return any(
        a.type_attr in attributes or a.type_list_attr in attributes
        for a in (*definition.inputs, *definition.outputs)
    )


def variable_fix(dtype: str, types: Collection[str] | None) -> Fix:
    """Return what type to give a variable, so that it can be on a GPU and its users compute there.

    Args:
        types: The types that all ops which use it could have; None where these are not known.
    """
    taken = types_taken("VarHandleOp", "dtype", "int32")
    targets = [t for t in TARGETS.get(dtype, ()) if t.dtype in taken]
    suitable = [t for t in targets if types is None or t.dtype in types]
    if suitable:
        target = suitable[0]
        new = python_name(target.dtype)
        return Fix(
            text=(
                f"Create the variable as {new}{target.in_brackets}, and the values that are "
                "assigned to it or combined with it."
            ),
            code=f"tf.Variable(value, dtype=tf.{new})",
            checked=types is not None,
        )
    return Fix(
        text=(
            "No other dtype suits all ops that use the variable. Keep it on the CPU, and cast its "
            "value once per step, before you compute with it."
        )
    )

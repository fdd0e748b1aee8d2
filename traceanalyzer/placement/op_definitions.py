"""The definition of an op: its arguments and attributes, and how these give its types.

The rules are TensorFlow's `InOutTypesForNode` and `AddDefaultsToNodeDef`
(`core/framework/node_def_util.cc`) of 2.12 to 2.21.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from traceanalyzer.capture_file.document import Attributes, Json

_REF: Final = "_ref"
_MOST_TENSORS: Final = 1_000_000  # of one argument: a capture file may have any number


class AttributesError(ValueError):
    """Attributes lack what an op's definition needs, or hold something else there."""


class InputTypesError(ValueError):
    """An op cannot have inputs of these types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """An input or output of an op: one tensor, or several of one type, or a list of types."""

    name: str
    type: str = ""  #: its type, as the capture file names types; "" where an attribute gives it
    type_attr: str = ""  #: the attribute that gives its type, or ""
    #: The attribute that gives how many tensors of that type there are; "" for one.
    number_attr: str = ""
    type_list_attr: str = ""  #: the attribute that gives a list of types, a tensor each; or ""
    is_ref: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeDefinition:
    """An attribute of an op."""

    type: str  #: `type`, `list(type)`, `int`, `string`, `shape`, `func` and so on
    has_default: bool = False
    default: Json = None  #: its value then, in the capture file's encoding
    #: The values that it may have, types as the capture file names them and strings as plain text;
    #: None for any.
    allowed: tuple[str, ...] | None = None
    minimum: int | None = None  #: the least value of an int or length of a list; None for none

    @property
    def is_type(self) -> bool:
        """Whether its value is a type or a list of types."""
        return self.type in {"type", "list(type)"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpDefinition:
    """What an op takes and gives."""

    name: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    #: Its attributes by name, in the definition's order.
    attributes: Mapping[str, AttributeDefinition]
    is_stateful: bool = False  #: whether it has state or effects

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def makes_handles(self) -> bool:
        """Whether all that it gives are handles of resources: it computes nothing anywhere."""
        return bool(self.outputs) and all(output.type == "resource" for output in self.outputs)

    def has_argument_of(self, attributes: Collection[str]) -> bool:
        """Return whether any of these attributes gives the type of an argument."""
        return any(
            a.type_attr in attributes or a.type_list_attr in attributes
            for a in (*self.inputs, *self.outputs)
        )

    def complete(self, attributes: Attributes) -> Attributes:
        """Return attributes with the defaults of those that are missing filled in."""
        missing = {
            name: attribute.default
            for name, attribute in self.attributes.items()
            if attribute.has_default and name not in attributes
        }
        return {**attributes, **missing} if missing else attributes

    def types_of(self, argument: Argument, attributes: Attributes) -> tuple[str, ...]:
        """Return the type of each tensor of an argument; `float_ref` for a reference.

        Raises:
            AttributesError: An attribute that it needs is missing, or no type, number or list.
        """
        if argument.type_list_attr:
            listed = self._value(argument.type_list_attr, attributes)
            if not isinstance(listed, list):
                raise AttributesError(self._unfit(argument.type_list_attr, listed))
            types = [t for t in listed if isinstance(t, str)]
            if len(types) != len(listed):
                raise AttributesError(self._unfit(argument.type_list_attr, listed))
        else:
            dtype = argument.type or self._value(argument.type_attr, attributes)
            if not isinstance(dtype, str):
                raise AttributesError(self._unfit(argument.type_attr, dtype))
            types = [dtype] * self._number(argument, attributes)
        return tuple(t + _REF for t in types) if argument.is_ref else tuple(types)

    def input_types(self, attributes: Attributes) -> tuple[str, ...]:
        """Return the type of each input; `float_ref` for a reference."""
        return tuple(t for a in self.inputs for t in self.types_of(a, attributes))

    def output_types(self, attributes: Attributes) -> tuple[str, ...]:
        """Return the type of each output; `float_ref` for a reference."""
        return tuple(t for a in self.outputs for t in self.types_of(a, attributes))

    def attributes_of_inputs(self, input_types: Sequence[str]) -> dict[str, Json]:
        """Return the attributes that the types of the inputs determine.

        Where several arguments have any number of tensors each, only the types of the inputs before
        them are known.

        Args:
            input_types: The type of each input, as the capture file names types. A reference fits
                where its type does.

        Raises:
            InputTypesError: This op cannot have inputs of these types.
        """
        sizes = [argument.number_attr or argument.type_list_attr for argument in self.inputs]
        inputs = self.inputs
        if len({*sizes} - {""}) > 1:
            inputs = inputs[: next(at for at, size in enumerate(sizes) if size)]
            input_types, sizes = input_types[: len(inputs)], sizes[: len(inputs)]
        sized = sum(map(bool, sizes))
        length, left = divmod(len(input_types) - len(sizes) + sized, sized or 1)
        found: dict[str, Json] | None = {}
        if (left or length < self._minimum(sizes)) if sized else length:
            found = None
        at = 0
        for argument, size in zip(inputs, sizes, strict=True):
            end = at + (length if size else 1)
            found = None if found is None else self._fit(argument, input_types[at:end], found)
            at = end
        if found is None:
            types = ", ".join(input_types) or "no inputs"
            msg = f"{self.name} cannot have inputs of these types: {types}"
            raise InputTypesError(msg)
        return found

    def _minimum(self, sizes: Sequence[str]) -> int:
        known = (self.attributes.get(size) for size in sizes if size)
        return max([0, *(each.minimum or 0 for each in known if each is not None)])

    def _fit(
        self, argument: Argument, types: Sequence[str], known: Mapping[str, Json]
    ) -> dict[str, Json] | None:
        """Return the attributes known once an argument has tensors of these types, or None."""
        if argument.is_ref and not all(t.endswith(_REF) for t in types):
            return None
        plain: list[Json] = [t.removesuffix(_REF) for t in types]
        found: dict[str, Json] = {}
        if argument.type_list_attr:
            found[argument.type_list_attr] = plain
        else:
            if len({*types}) > 1 and len({str(t) for t in plain}) > 1:
                return None
            if argument.number_attr:
                found[argument.number_attr] = len(plain)
            if plain and argument.type and plain[0] != argument.type:
                return None
            if plain and argument.type_attr:
                found[argument.type_attr] = plain[0]
        if any(name in known and known[name] != value for name, value in found.items()):
            return None
        if not all(self._allows(name, value) for name, value in found.items()):
            return None
        return {**known, **found}

    def _allows(self, name: str, value: Json) -> bool:
        definition = self.attributes.get(name)
        if definition is None or definition.allowed is None:
            return True
        values = value if isinstance(value, list) else [value]
        return all(v in definition.allowed for v in values)

    def _value(self, name: str, attributes: Attributes) -> Json:
        if name in attributes:
            return attributes[name]
        definition = self.attributes.get(name)
        if definition is None or not definition.has_default:
            msg = f"{self.name}: there is no attribute {name}"
            raise AttributesError(msg)
        return definition.default

    def _number(self, argument: Argument, attributes: Attributes) -> int:
        if not argument.number_attr:
            return 1
        number = self._value(argument.number_attr, attributes)
        if type(number) is not int or not 0 <= number <= _MOST_TENSORS:
            raise AttributesError(self._unfit(argument.number_attr, number))
        return number

    def _unfit(self, name: str, value: Json) -> str:
        return f"{self.name}: attribute {name} is {value!r}"

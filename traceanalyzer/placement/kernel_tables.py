"""Reads the files in `data/`, and the op definitions that they contain.

The files are plain text with a paragraph for each op: its type, followed by one line per fact. Each
line starts with the TensorFlow versions to which it applies. `*` means every version that has a
table; `2.14-`, `-2.13`, and `2.14,2.16-2.17` are ranges of versions.

`kernels.txt` lists the kernels of each device type, as JSON; see `Kernel` in `registry`. If
TensorFlow has the same kernel twice, `copies` numbers them:

```
Abs
-2.0 {"device_type":"CPU","constraints":{"T":["double","float","half","int32","int64"]}}
```

`definitions.txt` lists the definitions of ops, as JSON; see `OpDefinition`.

`colocation_exempt.txt` lists one op per line, with its versions. `versions.txt` lists the versions
and the wheels that the tables were read from.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from traceanalyzer import data_files
from traceanalyzer.capture_file.document import Attributes, Json

# (2, 21) for 2.21.0: kernels only change with minor versions, not with patches.
Minor: TypeAlias = "tuple[int, int]"

KERNELS: Final = "kernels.txt"
DEFINITIONS: Final = "definitions.txt"
COLOCATION_EXEMPT: Final = "colocation_exempt.txt"
VERSIONS: Final = "versions.txt"
ALL: Final = "*"

_RELEASE: Final = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.\d{1,4})*(?P<rest>.*)", re.ASCII)
_NAMED: Final = re.compile(r"\b\d{1,4}\.\d{1,4}\b", re.ASCII)
_REF: Final = "_ref"
_MOST_TENSORS: Final = 1_000_000  # per argument: a capture file can contain any number


def read(name: str) -> str:
    """Return the text of a file in `data/`."""
    return data_files.text(f"placement/data/{name}")


@cache
def op_types(name: str) -> frozenset[str]:
    """Return a named set of op types from `op_types.toml`."""
    return frozenset(data_files.toml("placement/data/op_types.toml")[name]["ops"])


@cache
def paragraphs(name: str) -> Mapping[str, str]:
    """Return each op's unparsed lines in a file, in the file's order."""
    parts = (paragraph.partition("\n") for paragraph in read(name).split("\n\n"))
    return MappingProxyType({op: lines for op, _, lines in parts if not op.startswith("#")})


@cache
def tabulated() -> Mapping[Minor, str]:
    """Return the versions that have tables, oldest first, with the releases they were read from."""
    lines = (line.split() for line in words(read(VERSIONS)))
    return MappingProxyType({minor_of(line[0]): line[1] for line in lines})


@lru_cache(maxsize=1024)
def minor_of(version: str) -> Minor:
    """Return the minor version of a release, such as (2, 21) for `2.21.0`."""
    found = _RELEASE.fullmatch(version.strip())
    if found is None:
        msg = f"{version!r} is not a version of TensorFlow; write it like 2.21"
        raise ValueError(msg)
    return int(found[1]), int(found[2])


def nearest_minor(version: str | None) -> tuple[Minor, bool]:
    """Return the nearest version that has tables, and whether it is an exact match.

    Other builds (`2.13.0+nv23.7`), nightlies, and release candidates match their minor version,
    but not exactly. Of several versions (`between 2.4 and 2.5`), the last one counts. For an
    unknown version, return the newest one that has tables.
    """
    oldest, *_, newest = tabulated()
    found = _RELEASE.fullmatch(version.strip()) if version is not None else None
    if found is None:
        named = _NAMED.findall(version or "")
        return (nearest_minor(named[-1])[0] if named else newest), False
    minor = int(found[1]), int(found[2])
    return min(max(minor, oldest), newest), oldest <= minor <= newest and not found["rest"]


def text(version: Minor) -> str:
    """Return a version as text, such as `2.21`."""
    return f"{version[0]}.{version[1]}"


@lru_cache(maxsize=1024)
def covers(range_: str, version: Minor) -> bool:
    """Return whether version ranges such as `2.14,2.16-2.17` include a version."""
    if range_ == ALL:
        return True
    for part in range_.split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if (not first or minor_of(first) <= version) and (not last or version <= minor_of(last)):
            return True
    return False


def words(text: str) -> Iterator[str]:
    """Yield the lines of a text, skipping empty lines and comments."""
    return (line for line in text.splitlines() if line and not line.startswith("#"))


def lines_of(lines: str, version: Minor) -> Iterator[str]:
    """Yield the lines that apply to a version, without their version ranges. Some are empty."""
    for line in words(lines):
        versions, _, rest = line.partition(" ")
        if covers(versions, version):
            yield rest


# --- Definitions of ops ---------------------------------------------------------------------------
#
# The rules are TensorFlow's `InOutTypesForNode` and `AddDefaultsToNodeDef`
# (core/framework/node_def_util.cc) of 2.12 to 2.21.


class AttributesError(ValueError):
    """Raised if attributes are missing or do not match the op's definition."""


class InputTypesError(ValueError):
    """Raised if an op cannot take inputs of the given types."""


class Argument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An input or output of an op: one tensor, or several of one type or of different types."""

    name: str
    type: str = ""  #: its type, as in the capture file; "" if an attribute gives it
    # Names of attributes:
    type_attr: str = ""  #: gives its type
    number_attr: str = ""  #: gives the number of tensors
    type_list_attr: str = ""  #: gives a list of types, one per tensor
    is_ref: bool = False


class AttributeDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attribute in an op's definition."""

    type: str  #: `type`, `list(type)`, `int`, `string`, `shape`, `func` and so on
    default: Json | UnsetType = UNSET  #: its default, in the capture file's encoding
    allowed: tuple[str, ...] | None = None  #: types, or strings as plain text; None for any
    minimum: int | None = None  #: the least value of an int or length of a list

    @property
    def is_type(self) -> bool:
        """Whether the attribute's values are types."""
        return self.type in {"type", "list(type)"}


class OpDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The arguments and attributes of an op."""

    name: str
    inputs: tuple[Argument, ...] = ()
    outputs: tuple[Argument, ...] = ()
    #: Its attributes by name, in the definition's order.
    attributes: dict[str, AttributeDefinition] = {}
    is_stateful: bool = False  #: whether it has state or effects

    @property
    def makes_handles(self) -> bool:
        """Whether all outputs are resource handles, which means that the op computes nothing."""
        return bool(self.outputs) and all(output.type == "resource" for output in self.outputs)

    def has_argument_of(self, attributes: Collection[str]) -> bool:
        """Return whether any of these attributes gives the type of an argument."""
        arguments = (*self.inputs, *self.outputs)
        return any({a.type_attr, a.type_list_attr} & {*attributes} for a in arguments)

    def complete(self, attributes: Attributes) -> Attributes:
        """Return the attributes, with missing ones set to their defaults."""
        given = self.attributes.items()
        missing = {n: a.default for n, a in given if a.default is not UNSET and n not in attributes}
        return {**attributes, **missing} if missing else attributes

    def types_of(self, argument: Argument, attributes: Attributes) -> tuple[str, ...]:
        """Return the type of each tensor of an argument, such as `float` or `float_ref`."""
        name = argument.type_list_attr or argument.type_attr
        value = argument.type or self._value(name, attributes)
        if argument.type_list_attr:
            listed = value if isinstance(value, list) else [None]
        else:
            number = self._value(argument.number_attr, attributes) if argument.number_attr else 1
            if type(number) is not int or not 0 <= number <= _MOST_TENSORS:
                msg = f"{self.name}: attribute {argument.number_attr} cannot be {number!r}"
                raise AttributesError(msg)
            listed = [value] * number
        types = [dtype for dtype in listed if isinstance(dtype, str)]
        if len(types) != len(listed):
            msg = f"{self.name}: attribute {name} cannot be {value!r}"
            raise AttributesError(msg)
        return tuple(t + _REF for t in types) if argument.is_ref else tuple(types)

    def _value(self, name: str, attributes: Attributes) -> Json:
        if name in attributes:
            return attributes[name]
        definition = self.attributes.get(name)
        if definition is None or definition.default is UNSET:
            msg = f"{self.name}: attribute {name} has no value"
            raise AttributesError(msg)
        return definition.default

    def input_types(self, attributes: Attributes) -> tuple[str, ...]:
        """Return the type of each input, such as `float` or `float_ref`."""
        return tuple(t for a in self.inputs for t in self.types_of(a, attributes))

    def output_types(self, attributes: Attributes) -> tuple[str, ...]:
        """Return the type of each output, such as `float` or `float_ref`."""
        return tuple(t for a in self.outputs for t in self.types_of(a, attributes))

    def of_inputs(self, input_types: Sequence[str], given: Attributes) -> Attributes:
        """Return the given attributes, plus those implied by the input types if all are known."""
        return {**self.attributes_of_inputs(input_types), **given} if all(input_types) else given

    def attributes_of_inputs(self, input_types: Sequence[str]) -> dict[str, Json]:
        """Return the attributes that the input types determine. `float_ref` counts as `float`.

        If several arguments take any number of tensors, only the inputs before them are used.
        """
        sizes = [argument.number_attr or argument.type_list_attr for argument in self.inputs]
        if len({*sizes} - {""}) > 1:
            sizes = sizes[: next(at for at, size in enumerate(sizes) if size)]
            input_types = input_types[: len(sizes)]
        sized = sum(map(bool, sizes))
        length, left = divmod(len(input_types) - len(sizes) + sized, sized or 1)
        definitions = (self.attributes.get(size) for size in sizes)
        minimum = max([0, *(each.minimum or 0 for each in definitions if each is not None)])
        is_fitting = not left and length >= minimum if sized else not length
        found: dict[str, Json] = {}
        at = 0
        for argument, size in zip(self.inputs, sizes, strict=False) if is_fitting else ():
            types = input_types[at : at + (length if size else 1)]
            is_fitting &= self._fits(argument, types, found)
            at += len(types)
        if not is_fitting:
            types = ", ".join(input_types) or "no inputs"
            msg = f"{self.name} cannot have inputs of these types: {types}"
            raise InputTypesError(msg)
        return found

    def _fits(self, argument: Argument, types: Sequence[str], found: dict[str, Json]) -> bool:
        """Return whether an argument can have these types. Add implied attributes to `found`."""
        plain = [t.removesuffix(_REF) for t in types]
        new: dict[str, Json] = {}
        if argument.type_list_attr:
            new[argument.type_list_attr] = [*plain]
        if argument.number_attr:
            new[argument.number_attr] = len(plain)
        if plain and argument.type_attr:
            new[argument.type_attr] = plain[0]
        is_fitting = not argument.is_ref or all(t.endswith(_REF) for t in types)
        if not argument.type_list_attr:
            is_fitting &= not plain or {*plain} == {argument.type or plain[0]}
        for name, value in new.items():
            allowed = self.attributes[name].allowed if name in self.attributes else None
            values = value if isinstance(value, list) else [value]
            is_fitting &= allowed is None or all(each in allowed for each in values)
            is_fitting &= found.setdefault(name, value) == value
        return is_fitting

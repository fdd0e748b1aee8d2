"""The files in `data/`: plain text, a paragraph for each op, each line with its versions.

A paragraph is an op type and, below, what holds for it in which versions of TensorFlow; lines that
begin with `#` at the top say where it comes from. `*` stands for every version that has a table,
`2.14-`, `-2.13`, and `2.14,2.16-2.17` for ranges of them.

`kernels.txt`, the kernels of a device type that take one of the values of each attribute:

```
GatherNd
* GPU Tindices=int32,int64 Tparams=double,float bad_indices_policy="","DEFAULT" ; host=x priority=1
```

Types are bare, strings quoted as in JSON, integers and booleans as in JSON. After the `;` come
differences from a kernel's defaults: `host`, the arguments in host memory; `priority`; `label`;
`copy=2` where TensorFlow has the same kernel twice.

`definitions.txt`, the definitions of ops:

```
AddN
* in inputs:$N*$T out sum:$T attr N:int>=1 T:type{double,float} name:string="a" stateful
```

An argument's type is bare, or `$` and the attribute that gives it; `$N*` before it says how many
there are, `[]` after it that the attribute is a list of types, `&` that it is a reference. An
attribute has its type, `>=` the least value or length, `{}` the allowed values, `=` the default as
in JSON, encoded as in a capture file.

`colocation_exempt.txt` holds an op a line, with its versions; `versions.txt` the versions, each
with the wheel that it was taken from.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from traceanalyzer.placement.op_definitions import Argument, AttributeDefinition, OpDefinition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from traceanalyzer.capture_file.document import Attributes, Json

# (2, 21) for 2.21.0: kernels change with minor versions; patches of one have the same.
Minor: TypeAlias = "tuple[int, int]"

KERNELS: Final = "kernels.txt"
DEFINITIONS: Final = "definitions.txt"
COLOCATION_EXEMPT: Final = "colocation_exempt.txt"
VERSIONS: Final = "versions.txt"
ALL: Final = "*"

_RELEASE: Final = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.\d{1,4})*(?P<rest>.*)", re.ASCII)
_NAMED: Final = re.compile(r"\b\d{1,4}\.\d{1,4}\b", re.ASCII)
_FACTS: Final = ";"
_ARGUMENT: Final = re.compile(
    r"(?P<name>[^:]+):(?:\$(?P<number>\w+)\*)?"
    r"(?:\$(?P<list>\w+)\[\]|\$(?P<attribute>\w+)|(?P<type>\w+))(?P<ref>&?)"
)
_ATTRIBUTE: Final = re.compile(
    r"(?P<name>[^:]+):(?P<type>[a-z()]+)(?:>=(?P<minimum>-?\d+))?"
    r"(?:\{(?P<allowed>[^}]*)\})?(?:=(?P<default>.*))?"
)


@cache
def read(name: str) -> str:
    """Return the text of a file of tables, read once."""
    return (files("traceanalyzer.placement") / "data" / name).read_text("utf-8")


@cache
def paragraphs(name: str) -> Mapping[str, str]:
    """Return the lines of each op of a file, unparsed, ops in the file's order."""
    found = {}
    for paragraph in read(name).split("\n\n"):
        op, _, lines = paragraph.partition("\n")
        if not op.startswith("#"):
            found[op] = lines
    return MappingProxyType(found)


@cache
def tabulated() -> Mapping[Minor, str]:
    """Return the versions that there are tables of, oldest first, and the release of each."""
    lines = (line.split() for line in words(read(VERSIONS)))
    return MappingProxyType({minor_of(line[0]): line[1] for line in lines})


@lru_cache(maxsize=1024)
def minor_of(version: str) -> Minor:
    """Return the minor version of a release, `2.21` of `2.21.0`."""
    found = _RELEASE.fullmatch(version.strip())
    if found is None:
        msg = f"{version!r} is no version of TensorFlow; write it like 2.21"
        raise ValueError(msg)
    return int(found[1]), int(found[2])


def nearest_minor(version: str | None, available: Sequence[Minor]) -> tuple[Minor, bool]:
    """Return the available version that is nearest, and whether it is that very one.

    A release of another build (`2.13.0+nv23.7`), a nightly, a candidate or a commit after a release
    is near to its minor version, not it: nobody knows what was changed there.

    Args:
        version: As TensorFlow gives it, or as much as is known, `2.1 or 2.2`: the last one named
            counts. To anything else the newest is nearest.
    """
    found = _RELEASE.fullmatch(version.strip()) if version is not None else None
    if found is None:
        named = _NAMED.findall(version or "")
        return (nearest_minor(named[-1], available)[0] if named else available[-1]), False
    minor = int(found[1]), int(found[2])
    nearest = min(available, key=lambda other: (_distance(minor, other), -other[1]))
    return nearest, nearest == minor and not found["rest"]


def _distance(one: Minor, other: Minor) -> tuple[int, int]:
    """Return how far apart two versions are; each of another major version is nearer to an end."""
    if one[0] != other[0]:
        return abs(one[0] - other[0]), other[1] if one[0] < other[0] else -other[1]
    return 0, abs(one[1] - other[1])


def text(version: Minor) -> str:
    """Return a minor version as it is written: `2.21`."""
    return f"{version[0]}.{version[1]}"


@lru_cache(maxsize=1024)
def covers(range_: str, version: Minor) -> bool:
    """Return whether a version lies in ranges as `ranges` writes them."""
    if range_ == ALL:
        return True
    for part in range_.split(","):
        first, dash, last = part.partition("-")
        if not dash:
            last = first
        if (not first or minor_of(first) <= version) and (not last or version <= minor_of(last)):
            return True
    return False


def words(text: str) -> Iterator[str]:
    """Walk the lines of a text that say something."""
    return (line for line in text.splitlines() if line and not line.startswith("#"))


def lines_of(lines: str, version: Minor) -> Iterator[str]:
    """Walk those lines that hold in a version, without their ranges."""
    for line in words(lines):
        versions, _, rest = line.partition(" ")
        if covers(versions, version):
            yield rest


def first_line(lines: str, version: Minor) -> str | None:
    """Return the first line that holds in a version, without its range; it may be empty."""
    return next(lines_of(lines, version), None)


def kernel_of(op: str, line: str) -> Kernel:
    """Read a kernel from a line without its range.

    Args:
        line: `GPU T=float,double ; host=axis priority=1 label=x`
    """
    before, _, after = line.partition(_FACTS)
    device_type, *constraints = before.split()
    facts = dict(fact.split("=", 1) for fact in after.split())
    return Kernel(
        op=op,
        device_type=device_type,
        constraints=MappingProxyType(
            {name: _allowed(values) for name, _, values in (c.partition("=") for c in constraints)}
        ),
        host_memory_args=tuple(facts["host"].split(",")) if "host" in facts else (),
        priority=int(facts.get("priority", 0)),
        label=facts.get("label", ""),
    )


def definition_of(op: str, line: str) -> OpDefinition:
    """Read an op's definition from a line without its range.

    Args:
        line: `in a:$T out b:$T attr T:type{float} stateful`, each part where there is any.
    """
    parts: dict[str, list[str]] = {"in": [], "out": [], "attr": [], "stateful": []}
    part: list[str] = []
    for word in line.split():
        if word in parts:
            part = parts[word]
            part.append(word)
        else:
            part.append(word)
    return OpDefinition(
        name=op,
        inputs=tuple(_arguments(parts["in"][1:])),
        outputs=tuple(_arguments(parts["out"][1:])),
        attributes=MappingProxyType(dict(_attribute(word) for word in parts["attr"][1:])),
        is_stateful=bool(parts["stateful"]),
    )


@cache
def _allowed(values: str) -> Allowed:
    return frozenset(_allowed_value(value) for value in values.split(","))


def _allowed_value(value: str) -> str | int | bool:
    if value[0] in '"-0123456789' or value in {"true", "false"}:
        parsed: str | int | bool = json.loads(value)
        return parsed
    return value


def _arguments(specifications: Iterable[str]) -> Iterator[Argument]:
    for specification in specifications:
        found = _ARGUMENT.fullmatch(specification)
        if found is None:
            msg = f"no argument: {specification!r}"
            raise ValueError(msg)
        yield Argument(
            name=found["name"],
            type=found["type"] or "",
            type_attr=found["attribute"] or "",
            number_attr=found["number"] or "",
            type_list_attr=found["list"] or "",
            is_ref=bool(found["ref"]),
        )


@cache
def _attribute(specification: str) -> tuple[str, AttributeDefinition]:
    found = _ATTRIBUTE.fullmatch(specification)
    if found is None:
        msg = f"no attribute: {specification!r}"
        raise ValueError(msg)
    allowed, default = found["allowed"], found["default"]
    return found["name"], AttributeDefinition(
        type=found["type"],
        has_default=default is not None,
        default=None if default is None else json.loads(default),
        allowed=None
        if allowed is None
        else tuple(str(_allowed_value(value)) for value in allowed.split(",")),
        minimum=None if found["minimum"] is None else int(found["minimum"]),
    )


DEFAULT: Final = "DEFAULT"  # for every device type that has no kernel of its own that matches

# The values that an attribute may have: types as in the capture file, strings as plain text.
Allowed: TypeAlias = "frozenset[str | int | bool]"

# `DataTypeAlwaysOnHost` in core/framework/types.cc
ALWAYS_ON_HOST: Final = frozenset({"string", "string_ref", "resource"})
_LABEL: Final = "_kernel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel, or several that differ only in the values they allow."""

    op: str
    #: `CPU`, `GPU` or `DEFAULT`.
    device_type: str
    #: The allowed values of each constrained attribute.
    constraints: Mapping[str, Allowed] = field(hash=False)
    #: Names of the arguments that it wants in host memory, sorted. Strings and resources always are
    #: there, named or not.
    host_memory_args: tuple[str, ...] = ()
    #: Of the kernels that match, the one with the highest is taken; the placer prefers it, too.
    priority: int = 0
    #: What a node's `_kernel` attribute must be.
    label: str = ""

    def matches(self, attributes: Attributes) -> bool:
        """Return whether it accepts these attributes, with defaults filled in.

        A constrained attribute that is missing does not match: TensorFlow refuses such a node.
        """
        return not self.mismatches(attributes)

    def mismatches(self, attributes: Attributes) -> tuple[str, ...]:
        """Return the constrained attributes that are missing or have a value it does not accept."""
        return tuple(
            name
            for name, allowed in self.constraints.items()
            if name not in attributes or not _accepts(allowed, attributes[name])
        )


def _accepts(allowed: Allowed, value: Json) -> bool:
    """Return whether a constraint accepts a value: each type of a list of types, no other list."""
    if isinstance(value, str):
        return value in allowed
    if isinstance(value, list):
        return all(isinstance(v, str) and v in allowed for v in value)
    if isinstance(value, dict):
        text = value.get("s")
        return isinstance(text, str) and text in allowed
    # 1 and True are equal in a set, and different to TensorFlow.
    return any(type(value) is type(v) and value == v for v in allowed)


def label_of(attributes: Attributes) -> str:
    """Return the label of the kernel that a node requests."""
    value = attributes.get(_LABEL)
    text = value.get("s") if isinstance(value, dict) else None
    return text if isinstance(text, str) else ""

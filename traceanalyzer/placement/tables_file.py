"""The tables as they lie in `data/`: plain text, an op a paragraph, each line with its versions.

A paragraph is an op type and, below, what holds for it in which versions of TensorFlow; lines that
begin with `#` at the top say where it comes from. What ranges mean stands in `versions`.

`kernels.txt`, the kernels of a device type that take one of the values of each attribute:

```
GatherNd
* GPU Tindices=int32,int64 Tparams=double,float bad_indices_policy="","DEFAULT" ; host=x priority=1
```

Types are bare, strings quoted as in JSON, integers and booleans as in JSON. After the `;` stands
what differs from a kernel's defaults: `host`, the arguments in host memory; `priority`; `label`;
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
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from traceanalyzer.placement.kernels import Kernel
from traceanalyzer.placement.op_definitions import Argument, AttributeDefinition, OpDefinition
from traceanalyzer.placement.versions import Minor, covers, minor_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from traceanalyzer.placement.kernels import Allowed

__all__ = [
    "COLOCATION_EXEMPT",
    "DEFINITIONS",
    "KERNELS",
    "VERSIONS",
    "definition_of",
    "first_line",
    "kernel_of",
    "lines_of",
    "paragraphs",
    "read",
    "tabulated",
    "words",
]

KERNELS: Final = "kernels.txt"
DEFINITIONS: Final = "definitions.txt"
COLOCATION_EXEMPT: Final = "colocation_exempt.txt"
VERSIONS: Final = "versions.txt"

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
        op: The op type.
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
        op: The op type.
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

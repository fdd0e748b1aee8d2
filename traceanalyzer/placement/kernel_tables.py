"""The files in `data/`: plain text, a paragraph for each op, each line with its versions.

A paragraph is an op type, then a line for each fact with the TensorFlow versions that it applies
to. Lines that begin with `#` at the top name the source. `*` stands for every version that has a
table; `2.14-`, `-2.13`, and `2.14,2.16-2.17` for ranges of versions.

`kernels.txt`, the kernels of a device type with the values that they accept for each attribute:

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

An argument's type is bare, or `$` and the attribute that gives it. `$N*` before it is the number of
tensors; after it, `[]` means that the attribute is a list of types, `&` a reference. An attribute
has its type, `>=` the minimum value or length, `{}` the allowed values, `=` the default in JSON,
encoded as in a capture file.

`colocation_exempt.txt` lists an op per line, with its versions; `versions.txt` lists the versions
and the wheels that the tables were read from.
"""

from __future__ import annotations

import json
import re
from functools import cache, lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# (2, 21) for 2.21.0: kernels only change with minor versions, not with patches.
Minor: TypeAlias = "tuple[int, int]"

KERNELS: Final = "kernels.txt"
DEFINITIONS: Final = "definitions.txt"
COLOCATION_EXEMPT: Final = "colocation_exempt.txt"
VERSIONS: Final = "versions.txt"
ALL: Final = "*"

_RELEASE: Final = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.\d{1,4})*(?P<rest>.*)", re.ASCII)
_NAMED: Final = re.compile(r"\b\d{1,4}\.\d{1,4}\b", re.ASCII)


@cache
def read(name: str) -> str:
    """Return the text of a file of tables, read once."""
    return (files("traceanalyzer.placement") / "data" / name).read_text("utf-8")


@cache
def paragraphs(name: str) -> Mapping[str, str]:
    """Return the unparsed lines of each op of a file, in the file's order."""
    parts = (paragraph.partition("\n") for paragraph in read(name).split("\n\n"))
    return MappingProxyType({op: lines for op, _, lines in parts if not op.startswith("#")})


@cache
def tabulated() -> Mapping[Minor, str]:
    """Return the versions that have tables, oldest first, and the release of each."""
    lines = (line.split() for line in words(read(VERSIONS)))
    return MappingProxyType({minor_of(line[0]): line[1] for line in lines})


@lru_cache(maxsize=1024)
def minor_of(version: str) -> Minor:
    """Return the minor version of a release."""
    found = _RELEASE.fullmatch(version.strip())
    if found is None:
        msg = f"{version!r} is not a version of TensorFlow; write it like 2.21"
        raise ValueError(msg)
    return int(found[1]), int(found[2])


def nearest_minor(version: str | None) -> tuple[Minor, bool]:
    """Return the nearest version with tables, and whether it is exactly the given one.

    A release of another build (`2.13.0+nv23.7`), a nightly, a candidate, or a commit after a
    release is only near its minor version: its changes are unknown. Of several versions (`between
    2.4 and 2.5`), the last one counts. Without any, the newest is returned.
    """
    oldest, *_, newest = tabulated()
    found = _RELEASE.fullmatch(version.strip()) if version is not None else None
    if found is None:
        named = _NAMED.findall(version or "")
        return (nearest_minor(named[-1])[0] if named else newest), False
    minor = int(found[1]), int(found[2])
    return min(max(minor, oldest), newest), oldest <= minor <= newest and not found["rest"]


def text(version: Minor) -> str:
    """Return a minor version as it is written: `2.21`."""
    return f"{version[0]}.{version[1]}"


@lru_cache(maxsize=1024)
def covers(range_: str, version: Minor) -> bool:
    """Return whether a version lies in ranges as the tables write them."""
    if range_ == ALL:
        return True
    for part in range_.split(","):
        first, dash, last = part.partition("-")
        last = last if dash else first
        if (not first or minor_of(first) <= version) and (not last or version <= minor_of(last)):
            return True
    return False


def words(text: str) -> Iterator[str]:
    """Walk the lines of a text without empty lines and comments."""
    return (line for line in text.splitlines() if line and not line.startswith("#"))


def lines_of(lines: str, version: Minor) -> Iterator[str]:
    """Walk the lines that apply to a version, without their ranges; they can be empty then."""
    for line in words(lines):
        versions, _, rest = line.partition(" ")
        if covers(versions, version):
            yield rest


@cache
def allowed_values(values: str) -> frozenset[str | int | bool]:
    """Parse the allowed values of an attribute: types as in the capture file, plain strings."""
    return frozenset(
        json.loads(value) if value[0] in '"-0123456789' or value in {"true", "false"} else value
        for value in values.split(",")
    )

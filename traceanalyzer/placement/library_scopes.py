"""Library code that requests the CPU, by the names of its ops: `data/library_scopes.toml`."""

from __future__ import annotations

import re
import tomllib
from importlib.resources import files
from typing import TYPE_CHECKING, Final, NamedTuple

from traceanalyzer.placement import kernel_tables
from traceanalyzer.placement.registry import supported

if TYPE_CHECKING:
    from traceanalyzer.placement.kernel_tables import Minor


class _Scope(NamedTuple):
    habit: str
    name: re.Pattern[str]
    first: Minor
    last: Minor


def _read() -> tuple[_Scope, ...]:
    text = (files("traceanalyzer.placement") / "data" / "library_scopes.toml").read_text("utf-8")
    scopes = []
    for entry in tomllib.loads(text)["scope"]:
        first, last = entry.get("versions", [[0, 0], [999, 0]])
        name = re.compile(entry["name"].replace("{number}", r"(?:_\d+)*"))
        scopes.append(_Scope(entry["habit"], name, (first[0], first[1]), (last[0], last[1])))
    return tuple(scopes)


SCOPES: Final = _read()
_MINORS: Final = re.compile(r"\d+\.\d+")


def habit_of(name: str, version: str | None) -> str:
    """Return the library code that an op's name shows; "" for none.

    An unknown version of TensorFlow is assumed to be the newest known one.
    """
    minor = last_minor(supported()[-1] if version is None else version)
    for scope in SCOPES:
        if scope.name.search(name) and scope.first <= minor <= scope.last:
            return scope.habit
    return ""


def last_minor(version: str) -> Minor:
    """Return a minor version; the last one of a range, such as `2.1 or 2.2`.

    A text without a version is assumed to be the newest known one.
    """
    without_build = version.partition("+")[0]
    return kernel_tables.minor_of((_MINORS.findall(without_build) or supported())[-1])

"""What to do about ops, by `causes/data/*.toml`: each entry has a source."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, TypeVar

from traceanalyzer.capture_file.document import library_of, line_text, lines_text
from traceanalyzer.causes.knowledge.finding_text import fix_of
from traceanalyzer.model import Fix
from traceanalyzer.placement.kernel_types import definition_of
from traceanalyzer.placement.retyping import variable_fix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from traceanalyzer.capture_file.document import Attributes, Frame
    from traceanalyzer.placement.blocker import Blocker

_T = TypeVar("_T")


def read(name: str, kind: type[_T]) -> tuple[_T, ...]:
    """Return the entries of a file as records of a type, in order."""
    text = (files("traceanalyzer.causes") / "data" / f"{name}.toml").read_text("utf-8")
    (entries,) = tomllib.loads(text).values()
    return tuple(kind(**{key: _value(value) for key, value in e.items()}) for e in entries)


def _value(value: Any) -> Any:  # noqa: ANN401 - a TOML value
    if isinstance(value, list):
        return tuple(map(_value, value))
    return fix_of(value) if isinstance(value, dict) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class HostWork:
    """Ops whose work belongs on the host; see `host_work.toml` for the fields."""

    id: str
    why: str
    fix: str
    source: str
    ops: str = ""
    uses_strings: bool = False
    code: str | None = None
    in_libraries: bool = False

    def matches(self, op: str) -> bool:
        """Return whether an op type is one of these."""
        if self.uses_strings:
            definition = definition_of(op)
            arguments = () if definition is None else (*definition.inputs, *definition.outputs)
            return any(argument.type == "string" for argument in arguments)
        return re.fullmatch(self.ops, op) is not None

    @property
    def as_fix(self) -> Fix:
        """What to do."""
        return Fix(text=self.fix, code=self.code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Substitute:
    """Code that does an op's work with ops that have GPU kernels; see `substitutes.toml`."""

    ops: tuple[str, ...]
    title: str
    code: str
    source: str
    fix: str = ""
    condition: str | None = None
    types: tuple[str, ...] = ()
    attribute: str = "T"
    same_result: bool = False
    function: str = ""

    def as_fix(self, op: str, attributes: Iterable[Attributes]) -> Fix:
        """Return the fix for nodes, checked if a test ran the code with the results of the op."""
        is_known = not self.attribute or all(
            a.get(self.attribute) in self.types for a in attributes
        )
        return Fix.of(
            self.title.format(op=op),
            self.fix,
            condition=self.condition,
            code=self.code,
            checked=self.same_result and is_known,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Switch:
    """How to avoid ops that a library makes; see `library_switches.toml` for the fields."""

    folders: tuple[str, ...]
    title: str
    source: str
    fix: str = ""
    functions: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    code: str | None = None


_HOST_WORK: Final = read("host_work", HostWork)
SWITCHES: Final = read("library_switches", _Switch)
#: By op type and the library function that makes it ("" for any code).
SUBSTITUTES: Final = {
    (op, entry.function): entry for entry in read("substitutes", Substitute) for op in entry.ops
}


def host_work(op: str) -> HostWork | None:
    """Return why an op's work belongs on the host, or None if it does not."""
    return next((entry for entry in _HOST_WORK if entry.matches(op)), None)


def host_work_named(name: str) -> HostWork:
    """Return an entry by its id."""
    return next(entry for entry in _HOST_WORK if entry.id == name)


def substitute_for(op: str, attributes: Attributes, function: str = "") -> Substitute | None:
    """Return the substitute for an op that a library function makes, if one fits its type."""
    found = SUBSTITUTES.get((op, function)) or SUBSTITUTES.get((op, ""))
    if found is None:
        return None
    dtype = attributes.get(found.attribute) if found.attribute else None
    return found if dtype is None or dtype in found.types else None


def switch_of(op: str, frame: Frame) -> Fix | None:
    """Return the library's own option that avoids an op made at one of its lines, if known."""
    path = frame.file.replace("\\", "/")
    for switch in SWITCHES:
        if (
            any(f"/{folder}" in path for folder in switch.folders)
            and (not switch.functions or frame.code in switch.functions)
            and (not switch.ops or op in switch.ops)
        ):
            text = f"{_inside(frame)} {switch.title}. {switch.fix}".strip()
            return Fix(text=text, title=switch.title, code=switch.code)
    return None


def around(op: str, frame: Frame) -> Fix:
    """Return the fix for an op that a library makes, whose code the user cannot edit."""
    option = f"Check whether {library_of(frame)} has an option or a newer version that avoids it"
    outside = "or call that part outside the step."
    nothing = f"{_inside(frame)} There is nothing to change in your code. {option}, {outside}"
    return switch_of(op, frame) or Fix(text=nothing)


def _inside(frame: Frame) -> str:
    return f"{library_of(frame)} creates the op ({line_text(frame)}, in `{frame.code}`)."


def fixes_of_variables(dtype: str, blockers: Iterable[Blocker]) -> Iterator[Fix]:
    """Walk the fixes for variables of a type that a GPU cannot store or cannot compute with.

    There is one for each set of types that suits all users of a variable, with the lines that
    create these variables; and one if a library creates some.
    """
    by_types: dict[tuple[str, ...] | None, list[Blocker]] = {}
    in_libraries: list[Frame] = []
    for blocker in blockers:
        if blocker.made_in is None:
            by_types.setdefault(blocker.types, []).append(blocker)
        else:
            in_libraries.append(blocker.made_in)
    is_one = len(by_types) == 1 and not in_libraries
    for types, variables in by_types.items():
        fix = variable_fix(dtype, types)
        lines = lines_text([v.made_at or v.frame for v in variables])
        yield fix if is_one or not lines else replace(fix, text=f"At {lines}: {fix.text}")
    if in_libraries:
        yield around("VarHandleOp", in_libraries[0])

"""Advice on ops and libraries, from `causes/data/*.toml`."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from traceanalyzer.capture_file.document import Attributes, Frame, library_of, line_text, lines_text
from traceanalyzer.causes.knowledge.finding_text import fix_of
from traceanalyzer.data_files import toml
from traceanalyzer.model import Fix
from traceanalyzer.placement.blocker import Blocker
from traceanalyzer.placement.kernel_types import definition_of
from traceanalyzer.placement.retyping import variable_fix

_T = TypeVar("_T")


def read(name: str, kind: type[_T]) -> tuple[_T, ...]:
    """Read the entries of a file in `causes/data` as records of a type."""
    (entries,) = toml(f"causes/data/{name}.toml").values()
    return tuple(kind(**{key: _value(value) for key, value in e.items()}) for e in entries)


def _value(value: Any) -> Any:  # noqa: ANN401 - a TOML value
    if isinstance(value, list):
        return tuple(map(_value, value))
    return fix_of(value) if isinstance(value, dict) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Advice on some ops. Each TOML file in `causes/data` describes the fields of its entries."""

    source: str
    fix: Fix
    ops: tuple[str, ...] = ()
    # Of `host_work.toml`: ops whose work belongs on the host.
    id: str = ""
    title: str = ""
    why: str = ""
    in_libraries: bool = False
    # Of `library_switches.toml`: how to avoid ops that a library makes.
    folders: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    # Of `substitutes.toml`: code that does an op's work with ops that have GPU kernels.
    function: str = ""
    attribute: str = "T"
    types: tuple[str, ...] = ()
    same_result: bool = False


HOST_WORK: Final = {entry.id: entry for entry in read("host_work", Advice)}
_SWITCHES: Final = read("library_switches", Advice)
#: By op type and the library function that makes it ("" for any code).
SUBSTITUTES: Final = {
    (op, entry.function): entry for entry in read("substitutes", Advice) for op in entry.ops
}


def host_work(op: str) -> Advice | None:
    """Return the advice for an op whose work belongs on the host; None for other ops."""
    definition = definition_of(op)
    arguments = () if definition is None else (*definition.inputs, *definition.outputs)
    uses_strings = any(argument.type == "string" for argument in arguments)
    for entry in HOST_WORK.values():
        if any(re.fullmatch(known, op) for known in entry.ops) or (uses_strings and not entry.ops):
            return entry
    return None


def substitute(op: str, nodes: Sequence[Attributes], function: str = "") -> Fix | None:
    """Return the fix that replaces an op, or None. `function` is the library function around it.

    The fix counts as checked if a test of its code gave the same results as the op.
    """
    entry = SUBSTITUTES.get((op, function)) or SUBSTITUTES.get((op, ""))
    if entry is None:
        return None
    types = [each.get(entry.attribute) for each in nodes] if entry.attribute else []
    if any(dtype is not None and dtype not in entry.types for dtype in types):
        return None
    return replace(entry.fix, checked=entry.same_result and None not in types)


def switch_of(op: str, frame: Frame) -> Fix | None:
    """Return the fix that sets a library's option to avoid its op; None if no option is known."""
    path = frame.file.replace("\\", "/")
    for switch in _SWITCHES:
        if (
            any(f"/{folder}" in path for folder in switch.folders)
            and (not switch.functions or frame.code in switch.functions)
            and (not switch.ops or op in switch.ops)
        ):
            return replace(switch.fix, text=f"{_inside(frame)} {switch.fix.text}")
    return None


def around(op: str, frame: Frame) -> Fix:
    """Return the fix for an op that a library creates: a library option, or general advice."""
    option = f"Check whether an option or a newer version of {library_of(frame)} avoids the op"
    outside = "or call that part of the library outside the step."
    nothing = f"{_inside(frame)} There is nothing to change in your code. {option}, {outside}"
    return switch_of(op, frame) or Fix(text=nothing)


def _inside(frame: Frame) -> str:
    return f"{library_of(frame)} creates the op ({line_text(frame)}, in `{frame.code}`)."


def fixes_of_variables(dtype: str, blockers: Iterable[Blocker]) -> Iterator[Fix]:
    """Yield the fixes for variables of a dtype that a GPU cannot store or compute with.

    There is one fix for each set of dtypes that suits all uses of a variable, and another fix if a
    library creates some of the variables.
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

"""What libraries do on the CPU, and how to avoid it: two files `data/library_*.toml`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from traceanalyzer.capture_file.frames import library_of, line_text, lines_text
from traceanalyzer.causes.knowledge.tables import read
from traceanalyzer.model import Fix
from traceanalyzer.placement.retyping import variable_fix

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from traceanalyzer.capture_file.document import Frame
    from traceanalyzer.model import Harm
    from traceanalyzer.placement.blocker import Blocker


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryCode:
    """Library code that opens a scope for the CPU; see `library_code.toml` for the fields."""

    id: str
    title: str
    does: str
    harm: Harm
    why: str
    source: str
    files: tuple[str, ...] = ()
    fixes: tuple[Fix, ...] = ()

    def contains(self, path: str) -> bool:
        """Return whether a file is part of this code."""
        return any(
            f"/{part}" in f"/{path}" if part.endswith("/") else f"/{path}".endswith(f"/{part}")
            for part in self.files
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Switch:
    """How to avoid ops that a library makes; see `library_switches.toml` for the fields."""

    folders: tuple[str, ...]
    fix: str
    source: str
    functions: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    code: str | None = None

    def applies_to(self, op: str, frame: Frame) -> bool:
        path = frame.file.replace("\\", "/")
        return (
            any(f"/{folder}" in path for folder in self.folders)
            and (not self.functions or frame.code in self.functions)
            and (not self.ops or op in self.ops)
        )


LIBRARY_CODE: Final = read("library_code", LibraryCode)
SWITCHES: Final = read("library_switches", _Switch)


def library_code(frame: Frame | None) -> LibraryCode:
    """Return what is known about the library code that opens a scope; the last entry if nothing."""
    path = "" if frame is None else frame.file.replace("\\", "/")
    return next((each for each in LIBRARY_CODE if each.contains(path)), LIBRARY_CODE[-1])


def library_code_named(name: str) -> LibraryCode:
    """Return an entry by its id."""
    return next(each for each in LIBRARY_CODE if each.id == name)


def switch_of(op: str, frame: Frame) -> Fix | None:
    """Return the library's own option that avoids an op made at one of its lines, if known."""
    switch = next((each for each in SWITCHES if each.applies_to(op, frame)), None)
    if switch is None:
        return None
    return Fix(text=f"{_inside(frame)} {switch.fix}", code=switch.code)


def around(op: str, frame: Frame) -> Fix:
    """Return the fix for an op that a library makes, whose code the user cannot edit."""
    return switch_of(op, frame) or Fix(
        text=(
            f"{_inside(frame)} There is nothing to change in your code. Check whether "
            f"{library_of(frame)} has an option or a newer version that avoids the op, or call "
            "that part outside the step."
        )
    )


def _inside(frame: Frame) -> str:
    return f"{library_of(frame)} creates the op ({line_text(frame)}, in `{frame.code}`)."


def fixes_of_variables(dtype: str, blockers: Iterable[Blocker]) -> Iterator[Fix]:
    """Walk the fixes for variables of a type that a GPU cannot hold, or not compute with.

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

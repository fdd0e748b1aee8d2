"""Ops that share a finding, and what is often said about them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from traceanalyzer.causes.knowledge.finding_text import at_lines, file_line, runs_for_dataset
from traceanalyzer.format import listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traceanalyzer.capture_file.document import Frame
    from traceanalyzer.cpu_ops import CpuOp
    from traceanalyzer.model import Fix
    from traceanalyzer.placement.blocker import Blocker


@dataclass(frozen=True)
class BlockedOps:
    """Ops that share a finding, each with the blocker that the cause matched; at least one."""

    members: tuple[tuple[CpuOp, Blocker], ...]

    @property
    def ops(self) -> list[CpuOp]:
        """The ops."""
        return [cpu_op for cpu_op, _ in self.members]

    @property
    def blockers(self) -> list[Blocker]:
        """The blocker of each op."""
        return [blocker for _, blocker in self.members]

    @property
    def blocker(self) -> Blocker:
        """The blocker of the first op: those of the others have the same scope."""
        return self.members[0][1]

    @property
    def text(self) -> str:
        """The op types, with the line if all ops are made on one."""
        places = {(op.file, op.line) for op in self.ops}
        types = listed(list(dict.fromkeys(op.explanation.type for op in self.ops)))
        file, line = places.pop() if len(places) == 1 else (None, None)
        return types if file is None or line is None else f"{types} at {file_line(file, line)}"

    @property
    def at_lines(self) -> str:
        """The lines of the ops for the end of a title: ` at train.py:7`, or ""."""
        return at_lines(self.ops)

    @property
    def library(self) -> Frame | None:
        """The library line that makes the first op, if libraries make all of them."""
        lines = [op.explanation.library for op in self.ops]
        return None if None in lines else lines[0]

    @property
    def fallback(self) -> tuple[str, ...]:
        """The modifier of findings about ops for which the program requested a GPU."""
        requested = any("GPU" in (op.requested_device or "").upper() for op in self.ops)
        return ("soft_placement_fallback",) if requested else ()

    @property
    def are_input(self) -> bool:
        """Whether all ops run in functions that input pipelines call."""
        return all(runs_for_dataset(cpu_op, blocker) for cpu_op, blocker in self.members)

    @property
    def have_no_other_blocker(self) -> bool:
        """Whether a replay proves that the ops move to a GPU without these blockers."""
        return all(
            op.explanation.blockers == (blocker,) and op.explanation.certainty == "certain"
            for op, blocker in self.members
        )

    def checked(self, fixes: Iterable[Fix]) -> tuple[Fix, ...]:
        """Return fixes, unchecked where another blocker remains or a replay still finds the CPU."""
        is_enough = all(
            len(op.explanation.blockers) <= 1
            and (op.explanation.is_complete or op.explanation.basis != "replay")
            for op in self.ops
        )
        return tuple(replace(fix, checked=fix.checked and is_enough) for fix in fixes)

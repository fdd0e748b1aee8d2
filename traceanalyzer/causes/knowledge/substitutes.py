"""What to write instead of ops that have no GPU kernel: `data/substitutes.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from traceanalyzer.causes.knowledge.tables import read

if TYPE_CHECKING:
    from traceanalyzer.capture_file.document import Attributes


@dataclass(frozen=True, slots=True, kw_only=True)
class Substitute:
    """Code that does an op's work with ops that have GPU kernels; see the file for the fields."""

    ops: tuple[str, ...]
    fix: str
    code: str
    source: str
    types: tuple[str, ...] = ()
    attribute: str = "T"
    same_result: bool = False
    function: str = ""

    def fits(self, attributes: Attributes) -> bool:
        """Return whether the node's data has one of the types, or an unknown type."""
        dtype = attributes.get(self.attribute) if self.attribute else None
        return dtype is None or dtype in self.types

    def is_checked_for(self, attributes: Attributes) -> bool:
        """Return whether a test ran the code for the node's type, with the op's own result."""
        is_known = not self.attribute or attributes.get(self.attribute) in self.types
        return self.same_result and is_known


#: By op type and the library function that makes it ("" for any code).
SUBSTITUTES: Final = {
    (op, entry.function): entry for entry in read("substitutes", Substitute) for op in entry.ops
}


def substitute_for(op: str, attributes: Attributes, function: str = "") -> Substitute | None:
    """Return the substitute for an op that a library function makes, if one fits its type."""
    found = SUBSTITUTES.get((op, function)) or SUBSTITUTES.get((op, ""))
    return found if found is not None and found.fits(attributes) else None

"""The findings: why some ops ran on the CPU, with the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traceanalyzer.model import Blocker, Certainty, Evidence, Fix, Harm, RuledOut


__all__ = ["Finding", "finding_id"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Why some ops ran on the CPU.

    Attributes:
        cause: Id of the cause.
        scope: What tells findings of one cause apart, without anything that changes from one
            recording to the next: part of the finding's id.
        sub_reason: A closer name for the cause, or None.
        certainty: How sure it is.
        harm: Whether it hurts.
        title: One line.
        why: Why it happens, in a few sentences.
        op_ids: Rows of the op table that it explains.
        evidence: What was observed; at least one.
        dragged_along: Other rows, that are on the CPU because of these.
        blockers: All that keeps them from a GPU, in the order in which it bites, the cause first;
            empty where that is the cause alone.
        modifiers: What goes with the cause, such as `soft_placement_fallback`.
        ruled_out: What was considered and does not hold.
        fixes: What to change.
    """

    cause: str
    scope: str
    certainty: Certainty
    harm: Harm
    title: str
    why: str
    op_ids: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    sub_reason: str | None = None
    dragged_along: tuple[str, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    modifiers: tuple[str, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    fixes: tuple[Fix, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a finding that rests on nothing."""
        if not self.evidence:
            msg = f"{self.cause}: a finding needs evidence"
            raise ValueError(msg)

    @property
    def id(self) -> str:
        """A short key, the same when the same program is recorded again."""
        return finding_id(self.cause, self.scope)


def finding_id(cause: str, scope: str) -> str:
    """Return the key of a finding of `cause` in `scope`."""
    return blake2b(f"{cause}\0{scope}".encode(errors="surrogatepass"), digest_size=5).hexdigest()

"""The record of a finding: why some ops ran on the CPU, with the evidence."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from traceanalyzer.model import Blocker, Certainty, Evidence, Fix, Harm, RuledOut

CERTAINTIES: Final[tuple[Certainty, ...]] = ("certain", "likely", "possible")


@dataclass(frozen=True, kw_only=True)
class FindingText:
    """The text of a finding."""

    title: str
    why: str
    harm: Harm
    #: Fixes that only help under a condition come last.
    fixes: tuple[Fix, ...] = ()
    #: Accompanying facts, such as `soft_placement_fallback`.
    modifiers: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Finding(FindingText):
    """Why some ops ran on the CPU."""

    #: Id of the cause.
    cause: str
    #: Distinguishes findings of one cause. It is part of the finding's id, so it contains nothing
    #: that changes from one recording to the next.
    scope: str
    certainty: Certainty
    #: Rows of the op table that it explains.
    op_ids: tuple[str, ...]
    #: Observations; at least one.
    evidence: tuple[Evidence, ...]
    sub_reason: str | None = None
    #: Other rows that are on the CPU because of these ops.
    dragged_along: tuple[str, ...] = ()
    #: All blockers of the ops in order, the cause first; empty if it is the only one.
    blockers: tuple[Blocker, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()

    def __post_init__(self) -> None:
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

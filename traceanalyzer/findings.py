"""The record of a finding: why some ops ran on the CPU, with the evidence."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from traceanalyzer.model import BlockerRecord, Certainty, Evidence, Fix, Harm, RuledOut

CERTAINTIES: Final[tuple[Certainty, ...]] = ("certain", "likely", "possible")


@dataclass(frozen=True, kw_only=True)
class FindingText:
    """The text of a finding."""

    title: str
    why: str
    harm: Harm
    fixes: tuple[Fix, ...] = ()  #: those that only help under a condition come last
    modifiers: tuple[str, ...] = ()  #: accompanying facts, such as `soft_placement_fallback`


@dataclass(frozen=True, kw_only=True)
class Finding(FindingText):
    """The reason why some ops ran on the CPU, with the evidence."""

    cause: str  #: id of the cause
    #: Distinguishes findings of one cause, and is the same when the program is recorded again.
    scope: str
    certainty: Certainty
    op_ids: tuple[str, ...]  #: rows of the op table that it explains
    evidence: tuple[Evidence, ...]  #: at least one observation
    sub_reason: str | None = None
    dragged_along: tuple[str, ...] = ()  #: other rows that are on the CPU because of these ops
    #: All blockers of the ops in order, the cause first; empty if it is the only one.
    blockers: tuple[BlockerRecord, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()

    def __post_init__(self) -> None:
        if not self.evidence:
            msg = f"{self.cause}: a finding needs evidence"
            raise ValueError(msg)

    @property
    def id(self) -> str:
        """A short key that does not change when the program is recorded again."""
        return finding_id(self.cause, self.scope)


def finding_id(cause: str, scope: str) -> str:
    """Return the id of the finding of `cause` in `scope`."""
    return blake2b(f"{cause}\0{scope}".encode(errors="surrogatepass"), digest_size=5).hexdigest()

"""Changes that a user can make, with their edits, savings, and certainty."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from traceanalyzer.model._record import Certainty, Record

Place: TypeAlias = tuple[str, int]  # file and line

Kind: TypeAlias = Literal[
    "edit",  # lines of the user's program
    "library",  # a library makes the ops: nothing to edit where they are made
    "find_cause",  # the cause is unknown
    "record",  # record more
    "gpu",  # make a GPU visible
    "input",  # a faster input pipeline
    "sync",  # fewer values read back
    "retracing",  # fewer graphs built
    "runtime",  # less work of Python and the TensorFlow runtime
]
Effort: TypeAlias = Literal["one line", "few lines", "restructure", "command"]


class Edit(Record):
    """A replacement for consecutive lines of the user's program."""

    file: str
    line: int  # the first line of `old`
    old: tuple[str, ...]
    new: tuple[str, ...]


class Saving(Record):
    """The time that a change saves."""

    kind: Literal["upper_bound", "proxy", "none"]
    high_us: float | None = None
    share: float | None = None  # `high_us` as a share of the step or run
    per: Literal["step", "run", "once"] = "step"
    note: str = ""


class Candidate(Record):
    """A possible cause of unexplained ops."""

    cause: str
    title: str
    explains_directly: int  # ops
    explains_following: int  # ops that would be on the CPU because of these
    check: str  # a command or a line of code
    edit: str  # what to change if this is the cause


class Change(Record):
    """A change that a user can make to the program or its environment."""

    id: str  # the same when the program is recorded again
    kind: Kind
    title: str  # short and imperative
    detail: str = ""  # names its ops
    place: Place | None = None  # the line to edit
    also: tuple[Place, ...] = ()  # further lines to edit
    edits: tuple[Edit, ...] = ()
    line_text: str = ""  # the text of the line to edit, if there are no edits
    instead: str = ""  # code or text to show if there are no edits
    why: str = ""
    around: str = ""  # advice beside the edits; a workaround if the line is inside a library
    saving: Saving = Saving(kind="none")
    certainty: Certainty = "certain"
    effort: Effort = "few lines"
    is_verified: bool = False  # a replay of the placer shows that the ops move
    finding_ids: tuple[str, ...] = ()
    op_ids: tuple[str, ...] = ()  # ops that move, also those that need other changes too
    candidates: tuple[Candidate, ...] = ()
    needs: tuple[str, ...] = ()  # ids of other changes that some of the ops need too
    is_prediction: bool = False  # about a machine with a GPU, which the run did not have
    is_by_placement: bool = True  # about ops on the CPU


def with_distinct_ids(changes: Sequence[Change]) -> list[Change]:
    """Return the changes with unique ids. Repeated ids are numbered in the order of their lines."""
    used: Counter[str] = Counter()
    found = list(changes)
    for at in sorted(range(len(found)), key=lambda k: found[k].place or ("", 0)):
        same = found[at].id
        used[same] += 1
        if used[same] > 1:
            found[at] = replace(found[at], id=f"{same}-{used[same]}")
    return found

"""What is known of the input pipelines of a run. Times are picoseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Cure", "HostInput", "InputUse", "InputVerdict", "SlowStage", "StepWaits"]

InputVerdict = Literal["keeps_up", "too_slow", "unknown"]
CureKind = Literal["parallel", "prefetch", "vectorise", "cache", "generator", "read_in_parallel"]


@dataclass(frozen=True, eq=False, kw_only=True)
class StepWaits:
    """How long one host's steps waited for input.

    Attributes:
        table: One row a step of the kind that took most time: `step`, `name`, `start_ps`,
            `duration_ps`, `wait_ps` (within the step), `wait_before_ps` (between the step before
            and this one: a loop may fetch its input outside of what it marks), `since_ps` (where
            that begins) and `counts`.
        steps: Number of steps that count: the regular ones, and outliers that are slow because
            they waited. Only these are in the figures that follow.
        mean_ps: Wait per step, that before it included.
        median_ps: Likewise.
        share: Wait as a share of the steps' time, with what they waited before them.
        other_ps: What a step takes without the wait: its period less the wait, the median.
    """

    table: pd.DataFrame
    steps: int
    mean_ps: float
    median_ps: float
    share: float
    other_ps: float


@dataclass(frozen=True, kw_only=True)
class Cure:
    """A change to a pipeline.

    Attributes:
        kind: Which change.
        text: What to do, and what it asks of the program.
        code: The same as code.
        low_ps: What a step gains at least.
        high_ps: What it gains at most; never more than it waited.
        basis: What the bounds rest on.
    """

    kind: CureKind
    text: str
    code: str
    low_ps: float
    high_ps: float
    basis: str


@dataclass(frozen=True, kw_only=True)
class SlowStage:
    """The stage that bounds how fast a pipeline is.

    Attributes:
        row: Its row of the host's table of stages.
        stage: Its path.
        type: Its type.
        busy_ps: Its work per step, as time on the clock.
        in_wait_share: Share of the waiting during which it was at work.
    """

    row: int
    stage: str
    type: str
    busy_ps: float
    in_wait_share: float


@dataclass(frozen=True, eq=False, kw_only=True)
class HostInput:
    """The input pipelines of one host.

    Attributes:
        host: Its name.
        verdict: Whether they keep up.
        reason: Why that is unknown, or empty.
        waits: How long its steps waited, or None without steps.
        slow: The stage that bounds the rate, or None where nothing tells.
        cures: What helps, the best first; alternatives, whose gains do not add up.
        startup_ps: The longest first request of an iterator, or None.
        fill_ps: How long a shuffle took for its first element, while it filled its buffer; None
            where that is not most of the start.
        fill_size: How many elements that buffer holds, or None.
        fills: How many iterators of the shuffle there were: each filled it.
    """

    host: str
    verdict: InputVerdict
    reason: str = ""
    waits: StepWaits | None = None
    slow: SlowStage | None = None
    cures: tuple[Cure, ...] = ()
    startup_ps: int | None = None
    fill_ps: float | None = None
    fill_size: int | None = None
    fills: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class InputUse:
    """The input pipelines of a run.

    Attributes:
        hosts: Each host that has some.
        worst: The host whose steps wait longest, in the time of a step.
    """

    hosts: tuple[HostInput, ...]
    worst: HostInput

"""When to record: decisions without effects, so that they can be told from the outside.

A window is told of calls of functions, of steps, and now and then of the time and of what the
recording has grown to; it answers with what to do.
"""

from __future__ import annotations

import re
from typing import Callable, Dict, NamedTuple, Optional, Union

__all__ = [
    "LEAST_FREE",
    "LOOK_EVERY_S",
    "MOST_HEAP_BYTES",
    "Action",
    "Begin",
    "Clock",
    "End",
    "Load",
    "Window",
    "bound_reached",
]

LOOK_EVERY_S = 0.25
LEAST_FREE = 0.1  # of the machine's memory
MOST_HEAP_BYTES = 2 << 30  # TensorFlow writes no trace of more than 2 GiB

_DEFINITION = re.compile(r"__(?:inference|forward|backward)_(.+)_\d+")


class Load(NamedTuple):
    """What a running session has come to.

    Attributes:
        eager_ops: Eager ops since its beginning; without a session, since the last one's end.
        signatures: Distinct eager ops of the whole program.
        heap_bytes: Growth of the heap since then.
        free: Share of the machine's memory that is available.
        is_tracing: Some thread is tracing a function.
    """

    eager_ops: int = 0
    heap_bytes: int = 0
    free: float = 1.0
    signatures: int = 0
    is_tracing: bool = False


class Begin(NamedTuple):
    """Begin a session; what one under way holds is not worth keeping."""

    reason: str


class End(NamedTuple):
    """End the session and keep it."""

    reason: str


Action = Union[Begin, End, None]
Clock = Callable[[], float]


class Window:
    """What all windows have: they count, and are over at some time.

    Attributes:
        over: Nothing more will be recorded.
        recording: A session is under way.
        counts_on: Calls are counted even so.
    """

    counts_on = False

    def __init__(self, clock: Clock) -> None:
        """Begin with nothing counted.

        Args:
            clock: Tells the time.
        """
        self.over = False
        self.recording = False
        self._clock = clock
        self._began = 0.0
        self._counts: Dict[str, int] = {}
        self._labels: Dict[str, str] = {}

    @property
    def awaits_eager_ops(self) -> bool:
        """Whether eager ops are to be counted although nothing is recorded."""
        return False

    def opened(self) -> Action:
        """TensorFlow has been imported."""
        return None

    def used(self) -> Action:
        """TensorFlow is about to make its devices, and to run its first op."""
        return None

    def called(self, definition: str) -> Action:
        """A function is about to be called: count it as its Python function's."""
        label = self._labels.get(definition)
        if label is None:
            label = self._labels[definition] = self._label_of(definition)
        count = self._counts[label] = self._counts.get(label, 0) + 1
        return self._counted(label, count)

    def stepped(self) -> Action:
        """The program itself marks the beginning of a step."""
        return None

    def looked(self, load: Load) -> Action:
        """Some time has passed, after which a look was asked for."""
        raise NotImplementedError

    def written(self, size: int) -> Action:  # noqa: ARG002 - for those who judge by it
        """The session that has ended has left a trace of some bytes, 0 for none."""
        return None

    def next_look_s(self) -> Optional[float]:
        """Return in how many seconds to look next; None for not before something happens."""
        return LOOK_EVERY_S if self.recording else None

    def why_nothing(self) -> str:
        """Say why nothing was recorded of a program that used TensorFlow."""
        return "nothing was recorded"

    def is_too_short(self) -> bool:
        """Return whether the session under way shows less than one that is kept."""
        return False

    def missed(self) -> Optional[str]:
        """Say what else the program did for longer than was recorded, if it did."""
        return None

    def _label_of(self, definition: str) -> str:
        """Return the name under which calls of a function are counted."""
        found = _DEFINITION.fullmatch(definition)
        return found.group(1) if found else definition

    def _counted(self, label: str, count: int) -> Action:  # noqa: ARG002 - for those who count
        return None

    def _begin(self, reason: str) -> Begin:
        self._began = self._clock()
        self.recording = True
        return Begin(reason)

    def _end(self, reason: str) -> End:
        self.recording = False
        self.over = True
        return End(reason)

    def _elapsed(self) -> float:
        return self._clock() - self._began


def bound_reached(load: Load, heap_bytes: int, eager_ops: Optional[int]) -> Optional[str]:
    """Say which bound a session has reached."""
    if eager_ops is not None and load.eager_ops >= eager_ops:
        return f"for {eager_ops:,} eager ops"
    if load.heap_bytes >= heap_bytes:
        return f"until it held {heap_bytes >> 20} MB in memory"
    if load.free < LEAST_FREE:
        return f"until less than {LEAST_FREE:.0%} of the memory was free"
    return None

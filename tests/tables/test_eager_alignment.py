"""Which record each eager op is, and when none may be claimed."""

from typing import Any

import numpy as np
import pytest

from tests.capture_files import Book
from tests.tables.reading import host_plane
from tests.traces import call, eager, event, line, us
from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.native.events import align
from traceanalyzer.tables.arrays import in_line_order
from traceanalyzer.tables.joined import MARKER, eager_signatures
from traceanalyzer.trace.columns import Plane


def marker(thread: int, index: int, at: int) -> Any:  # noqa: ANN401  # a word of the language
    return event(MARKER, us(at), thread=thread, index=index)


def ran(*words: str, thread: int = 0, begin: int = 0) -> list[Any]:
    """Events of a thread, 10 µs each: ops, calls, and markers as `#INDEX`."""
    events = []
    for k, word in enumerate(words):
        at = begin + 10 * k
        if word.startswith("#"):
            events.append(marker(thread, int(word[1:]), at))
        elif word.startswith("__"):
            events.append(call(word, us(at, 9)))
        else:
            events.append(eager(word, us(at, 9)))
    return events


def lines_of(plane: Plane, capture_file: CaptureFile, session: int | None = 0) -> list[int | None]:
    """The line that each eager op was given, in order of event; None for none."""
    signature = eager_signatures(plane, in_line_order(plane), capture_file, session)
    found: list[int | None] = []
    for k in range(len(plane)):
        if plane.names[plane.name_of[k]].startswith("EagerLocalExecute"):
            frame = capture_file.frame(capture_file.signatures[signature[k]].frame)
            found.append(frame.line if signature[k] >= 0 and frame else None)
        else:
            assert signature[k] == -1
    return found


def aligned(events: str, records: str) -> list[int | None]:
    book = Book()
    book.thread(0, *records.split(", "))
    return lines_of(host_plane(line("python")(ran(*events.split()))), book.capture_file())


@pytest.mark.parametrize(
    ("events", "records", "lines"),
    [
        ("#0 Add Add Add Sub", "Add @1, Add @1, Add @1, Sub @2", [1, 1, 1, 2]),
        ("#0 Add __inference_f_9 Add", "Add @1, __inference_f_9 @2, Add @3", [1, 2, 3]),
        # Python never asks for a constant that TensorFlow keeps.
        ("#0 _EagerConst Add _EagerConst Sub", "Add @1, Sub @2", [None, 1, None, 2]),
        ("#0 Add Sub", "Add @1, Sub @2, Add @3, Mul @4", [1, 2]),
        ("#0 Add Sub Add", "Add @1, Sub @2", [1, 2, None]),
        ("#2 Add Sub", "Add @1, Sub @2, Add @3, Sub @4", [3, 4]),
        # An op that failed left no event.
        ("#0 Add Mul Sub #4 Add", "Add @1, Div @2, Mul @3, Sub @4, Add @5", [1, 3, 4, 5]),
        # The stretch runs on to the marker after one that is missing.
        ("#0 Add Sub Add #4 Mul", "Add @1, Sub @2, Add @3, Sub @4, Mul @5", [1, 2, 3, 5]),
        # Uncertain events have no line.
        ("Add #1 Add", "Add @1, Add @2", [None, 2]),
        ("Add Sub", "Add @1, Sub @2", [None, None]),
        # One of the two ran on TensorFlow's own account.
        ("#0 Cast Cast Sub", "Cast @1, Sub @2, Mul @3", [None, None, 2]),
        ("#0 Add Sub #3 Mul", "Add @1, Add @2, Sub @3, Mul @4", [None, 3, 4]),
        ("#0 Add Sub #3 Mul", "Add @1, Add @1, Sub @3, Mul @4", [1, 3, 4]),
        ("#0 Add Mul Sub Mul", "Add @1, Sub @2, Mul @3", [1, None, 2, 3]),
        ("#0 Add Sub #2 Neg", "Sub @1, Add @2, Neg @3", [None, None, 3]),
        ("#0 Cast Cast #1 Cast", "Cast @1, Cast @2, Cast @3", [None, None, 2]),
        ("#7 Add", "Add @1", [None]),
        ("#-1 Add", "Add @1", [None]),
    ],
)
def test_an_event_has_the_line_of_its_record(
    events: str, records: str, lines: list[int | None]
) -> None:
    assert aligned(events, records) == lines


def test_a_stretch_too_long_to_compare_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traceanalyzer.tables.joined._MOST_PAIRS", 5)

    assert aligned("#0 Add Sub Add #2 Mul", "Add @1, Sub @2, Mul @3") == [None, None, None, 3]


class TestThreads:
    def test_each_line_has_its_own_sequence(self) -> None:
        book = Book()
        book.thread(0, "Add @1", "Sub @2")
        book.thread(1, "Add @11", "Sub @12")
        plane = host_plane(
            line("python")(ran("#0", "Add", "Sub", thread=1)),
            line("worker")(ran("#0", "Add", "Sub", thread=0)),
        )

        assert lines_of(plane, book.capture_file()) == [11, 12, 1, 2]

    def test_a_thread_that_is_not_in_the_capture_file(self) -> None:
        book = Book()
        book.thread(0, "Add @1")
        plane = host_plane(line("python")(ran("#0", "Add", thread=4)))

        assert lines_of(plane, book.capture_file()) == [None]

    def test_an_op_within_another_comes_after_it(self) -> None:
        """As in a Python callback, on the thread that called it."""
        book = Book()
        book.thread(0, "EagerPyFunc @1", "Add @2", "Sub @3")
        outer = eager("EagerPyFunc", us(10, 50))
        plane = host_plane(
            line("python")(marker(0, 0, 0), outer(eager("Add", us(20, 5))), eager("Sub", us(70, 5)))
        )

        assert lines_of(plane, book.capture_file()) == [1, 2, 3]


class TestSessions:
    def book(self) -> Book:
        book = Book()
        book.thread(0, "Add @1", session=0)
        book.thread(0, "Add @11", session=1)
        return book

    @pytest.mark.parametrize(("session", "expected"), [(0, 1), (1, 11)])
    def test_only_the_sequences_of_the_trace_count(self, session: int, expected: int) -> None:
        plane = host_plane(line("python")(ran("#0", "Add")))

        assert lines_of(plane, self.book().capture_file(), session) == [expected]


def brute_force(events: list[int], records: list[int]) -> list[set[int] | None]:
    """For each event what the longest common subsequences pair it with; None: one leaves it out."""
    n, m = len(events), len(records)
    found: list[list[tuple[int, ...]]] = []

    def extend(i: int, j: int, pairs: tuple[int, ...]) -> None:
        if i == n:
            found.append(list(pairs))
            return
        extend(i + 1, j, (*pairs, -1))
        for k in range(j, m):
            if events[i] == records[k]:
                extend(i + 1, k + 1, (*pairs, k))

    extend(0, 0, ())
    longest = max(sum(p >= 0 for p in pairs) for pairs in found)
    best = [pairs for pairs in found if sum(p >= 0 for p in pairs) == longest]
    return [
        None if any(pairs[i] < 0 for pairs in best) else {pairs[i] for pairs in best}
        for i in range(n)
    ]


@pytest.mark.parametrize("seed", range(40))
def test_every_longest_common_subsequence_is_looked_at(seed: int) -> None:
    draw = np.random.default_rng(seed)
    events = draw.integers(0, 3, draw.integers(1, 7))
    records = draw.integers(0, 3, draw.integers(1, 7))
    signature = 10 * records + draw.integers(0, 2, len(records))

    out = align(
        (events.astype(np.int32), np.array([0]), np.array([len(events)])),
        (records.astype(np.int32), np.array([0]), np.array([len(records)])),
        signature.astype(np.int32),
        np.array([False]),
        100,
    )

    for got, may in zip(out, brute_force(events.tolist(), records.tolist()), strict=True):
        sure = may is not None and len({signature[k] for k in may}) == 1
        assert (got >= 0) == sure
        assert got < 0 or may is None or int(got) in may

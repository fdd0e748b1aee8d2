"""Which record each eager op is, and when none may be claimed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.sidecars import Book
from tests.tables.reading import host_plane
from tests.traces import call, eager, event, line, us
from traceanalyzer.native.events import Stretches, align
from traceanalyzer.tables.eager_alignment import MARKER, eager_signatures
from traceanalyzer.tables.nesting import in_line_order

if TYPE_CHECKING:
    from traceanalyzer.sidecar.document import Sidecar
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


def lines_of(plane: Plane, sidecar: Sidecar, session: int | None = 0) -> list[int | None]:
    """The line that each eager op was given, in order of event; None for none."""
    signature = eager_signatures(plane, in_line_order(plane), sidecar, session)
    found: list[int | None] = []
    for k in range(len(plane)):
        if plane.names[plane.name_of[k]].startswith("EagerLocalExecute"):
            frame = sidecar.frame(sidecar.signatures[signature[k]].frame)
            found.append(frame.line if signature[k] >= 0 and frame else None)
        else:
            assert signature[k] == -1
    return found


def aligned(events: str, records: str) -> list[int | None]:
    book = Book()
    book.thread(0, *records.split(", "))
    return lines_of(host_plane(line("python")(ran(*events.split()))), book.sidecar())


class TestWhereTypesAgree:
    def test_the_nth_event_is_the_nth_record(self) -> None:
        assert aligned("#0 MatMul Add MatMul", "MatMul @1, Add @2, MatMul @3") == [1, 2, 3]

    def test_a_loop_is_run_length_coded(self) -> None:
        assert aligned("#0 Add Add Add Sub", "Add @1, Add @1, Add @1, Sub @2") == [1, 1, 1, 2]

    def test_a_call_of_a_function_finds_its_own(self) -> None:
        assert aligned("#0 Add __inference_f_9 Add", "Add @1, __inference_f_9 @2, Add @3") == [
            *(1, 2, 3)
        ]

    def test_ops_that_python_never_asks_for_are_passed_over(self) -> None:
        assert aligned("#0 _EagerConst Add _EagerConst _EagerConst Sub", "Add @1, Sub @2") == [
            None,
            1,
            None,
            None,
            2,
        ]

    def test_the_trace_may_end_before_the_records(self) -> None:
        assert aligned("#0 Add Sub", "Add @1, Sub @2, Add @3, Mul @4") == [1, 2]

    def test_and_the_records_before_the_trace(self) -> None:
        assert aligned("#0 Add Sub Add", "Add @1, Sub @2") == [1, 2, None]

    def test_a_marker_in_the_middle_of_a_sequence(self) -> None:
        assert aligned("#2 Add Sub", "Add @1, Sub @2, Add @3, Sub @4") == [3, 4]


class TestWhatIsNotSure:
    def test_nothing_is_known_before_the_first_marker(self) -> None:
        assert aligned("Add #1 Add", "Add @1, Add @2") == [None, 2]

    def test_nothing_is_known_without_a_marker(self) -> None:
        assert aligned("Add Sub", "Add @1, Sub @2") == [None, None]

    def test_an_op_more_of_the_same_type_hides_which_is_which(self) -> None:
        """One of the two ran on TensorFlow's own account."""
        assert aligned("#0 Cast Cast Sub", "Cast @1, Sub @2, Mul @3") == [None, None, 2]

    def test_an_op_less_of_the_same_type_does_so_too(self) -> None:
        assert aligned("#0 Add Sub #3 Mul", "Add @1, Add @2, Sub @3, Mul @4") == [None, 3, 4]

    def test_ops_that_are_alike_need_not_be_told_apart(self) -> None:
        assert aligned("#0 Add Sub #3 Mul", "Add @1, Add @1, Sub @3, Mul @4") == [1, 3, 4]

    def test_a_failed_op_that_left_no_event_is_passed_over(self) -> None:
        assert aligned("#0 Add Mul Sub #4 Add", "Add @1, Div @2, Mul @3, Sub @4, Add @5") == [
            *(1, 3, 4, 5)
        ]

    def test_a_foreign_op_of_a_known_type_is_passed_over(self) -> None:
        assert aligned("#0 Add Mul Sub Mul", "Add @1, Sub @2, Mul @3") == [1, None, 2, 3]

    def test_both_at_once(self) -> None:
        assert aligned(
            "#0 Add Sub Neg Mul Abs #5 Neg", "Add @1, Div @2, Neg @3, Abs @4, Exp @5, Neg @6"
        ) == [1, None, 3, None, 4, 6]

    def test_a_swap_leaves_both_unclaimed(self) -> None:
        assert aligned("#0 Add Sub #2 Neg", "Sub @1, Add @2, Neg @3") == [None, None, 3]

    def test_what_does_not_agree_ends_at_the_next_marker(self) -> None:
        assert aligned("#0 Cast Cast #1 Cast #2 Cast", "Cast @1, Cast @2, Cast @3") == [
            *(None, None, 2, 3)
        ]

    def test_an_iteration_that_was_dropped_from_a_loop(self) -> None:
        body = "Add @1, Mul @2, Sub @3"
        assert aligned("#0 Add Mul Sub Add Mul Sub #9 Neg", ", ".join([body] * 3 + ["Neg @9"])) == [
            1,
            2,
            3,
            1,
            2,
            3,
            9,
        ]

    def test_a_missing_marker(self) -> None:
        """The stretch runs on to the one after it."""
        assert aligned("#0 Add Sub Add Sub #4 Mul", "Add @1, Sub @2, Add @3, Sub @4, Mul @5") == [
            *(1, 2, 3, 4, 5)
        ]

    def test_a_stretch_too_long_to_compare_is_left_alone(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("traceanalyzer.tables.eager_alignment._MOST_PAIRS", 5)

        assert aligned("#0 Add Sub Add #2 Mul", "Add @1, Sub @2, Mul @3") == [*(None,) * 3, 3]

    @pytest.mark.parametrize("index", [7, -1])
    def test_a_marker_beyond_the_sequence(self, index: int) -> None:
        assert aligned(f"#{index} Add", "Add @1") == [None]


class TestThreads:
    def test_each_line_has_its_own_sequence(self) -> None:
        book = Book()
        book.thread(0, "Add @1", "Sub @2")
        book.thread(1, "Add @11", "Sub @12")
        plane = host_plane(
            line("python")(ran("#0", "Add", "Sub", thread=1)),
            line("worker")(ran("#0", "Add", "Sub", thread=0)),
        )

        assert lines_of(plane, book.sidecar()) == [11, 12, 1, 2]

    def test_a_line_that_another_thread_took_over(self) -> None:
        book = Book()
        book.thread(0, "Add @1")
        book.thread(1, "Add @11")
        plane = host_plane(
            line("python")(ran("#0", "Add", thread=0), ran("#0", "Add", thread=1, begin=100))
        )

        assert lines_of(plane, book.sidecar()) == [1, 11]

    def test_a_thread_that_is_not_in_the_sidecar(self) -> None:
        book = Book()
        book.thread(0, "Add @1")
        plane = host_plane(line("python")(ran("#0", "Add", thread=4)))

        assert lines_of(plane, book.sidecar()) == [None]

    def test_a_marker_without_its_numbers_ends_what_was_known(self) -> None:
        book = Book()
        book.thread(0, "Add @1", "Sub @2")
        plane = host_plane(
            line("python")(ran("#0", "Add"), event(MARKER, us(50)), ran("Sub", begin=60))
        )

        assert lines_of(plane, book.sidecar()) == [1, None]

    def test_an_op_within_another_comes_after_it(self) -> None:
        """As in a Python callback, on the thread that called it."""
        book = Book()
        book.thread(0, "EagerPyFunc @1", "Add @2", "Sub @3")
        outer = eager("EagerPyFunc", us(10, 50))
        plane = host_plane(
            line("python")(marker(0, 0, 0), outer(eager("Add", us(20, 5))), eager("Sub", us(70, 5)))
        )

        assert lines_of(plane, book.sidecar()) == [1, 2, 3]


class TestSessions:
    def book(self) -> Book:
        book = Book()
        book.thread(0, "Add @1", session=0)
        book.thread(0, "Add @11", session=1)
        return book

    @pytest.mark.parametrize(("session", "expected"), [(0, 1), (1, 11)])
    def test_only_the_sequences_of_the_trace_count(self, session: int, expected: int) -> None:
        plane = host_plane(line("python")(ran("#0", "Add")))

        assert lines_of(plane, self.book().sidecar(), session) == [expected]

    def test_where_the_session_is_not_known_and_the_place_does_not_tell_none_is(self) -> None:
        plane = host_plane(line("python")(ran("#0", "Add")))

        assert lines_of(plane, self.book().sidecar(), None) == [None]

    def test_places_may_be_counted_on(self) -> None:
        book = Book()
        book.thread(0, "Add @1", session=0)
        book.thread(0, "Add @11", "Sub @12", session=1, first_index=1)
        plane = host_plane(line("python")(ran("#1", "Add", "Sub")))

        assert lines_of(plane, book.sidecar(), None) == [11, 12]


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
        Stretches(events.astype(np.int32), np.array([0]), np.array([len(events)])),
        Stretches(records.astype(np.int32), np.array([0]), np.array([len(records)])),
        signature.astype(np.int32),
        np.array([False]),
        100,
    )

    for got, may in zip(out, brute_force(events.tolist(), records.tolist()), strict=True):
        sure = may is not None and len({signature[k] for k in may}) == 1
        assert (got >= 0) == sure
        assert got < 0 or may is None or int(got) in may


def test_a_million_ops_take_about_a_second() -> None:
    """Most stretches agree, and one in fifty has an op too many."""
    n = 1_000_000
    draw = np.random.default_rng(1)
    kinds = draw.integers(0, 50, n)
    lost = np.arange(n) % 50_000 == 777
    kept = np.flatnonzero(~lost)
    begin = np.searchsorted(kept, np.arange(0, n, 1000))
    signature = kinds.astype(np.int32)
    started = time.perf_counter()

    out = align(
        Stretches(kinds[kept].astype(np.int32), begin, np.append(begin[1:], len(kept))),
        Stretches(signature, np.arange(0, n, 1000), np.arange(1000, n + 1, 1000)),
        signature,
        np.zeros(n // 1000, np.bool_),
        4_000_000,
    )

    assert time.perf_counter() - started < 2
    assert np.array_equal(kinds[out[out >= 0]], kinds[kept][out >= 0])
    assert (out >= 0).mean() > 0.99

"""The ledger of one allocator, compared with one that is kept record by record."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from traceanalyzer.memory import Ledger, ledger


class Record(NamedTuple):
    is_allocation: bool
    address: int
    size: int


class History(NamedTuple):
    """The blocks and records of an allocator."""

    older: dict[int, int]  # blocks from before the first record, by address
    records: list[Record]


@st.composite
def histories(draw: DrawFn) -> History:
    """Draw a possible history: no address is allocated twice, and only live blocks are freed."""
    older = draw(st.dictionaries(st.integers(0, 5), st.integers(0, 9), max_size=4))
    live = dict(older)
    records = []
    for _ in range(draw(st.integers(1, 25))):
        address = draw(st.integers(0, 5))
        if address in live:
            records.append(Record(is_allocation=False, address=address, size=live.pop(address)))
        else:
            live[address] = draw(st.integers(0, 9))
            records.append(Record(is_allocation=True, address=address, size=live[address]))
    return History(older, records)


def book_of(history: History, *, kept: list[int] | None = None, sizes_told: bool = True) -> Ledger:
    """The book of the records at `kept`, all by default; the totals are those of all."""
    signed = [r.size if r.is_allocation else -r.size for r in history.records]
    allocated = sum(history.older.values()) + np.cumsum(signed)
    chosen = list(range(len(signed))) if kept is None else kept
    records = [history.records[k] for k in chosen]
    return ledger(
        pd.DataFrame(
            {
                "start_ps": np.arange(len(records)) * 10,
                "is_allocation": [r.is_allocation for r in records],
                "addr": [r.address for r in records],
                "bytes_allocated": allocated[chosen],
                "bytes_reserved": 0,
                "allocation_bytes": [
                    r.size if sizes_told or r.is_allocation else -1 for r in records
                ],
            }
        )
    )


@given(histories(), st.booleans())
def test_what_is_live_and_what_is_older_is_known_after_each_record(
    history: History,
    sizes_told: bool,  # noqa: FBT001  # drawn
) -> None:
    book = book_of(history, sizes_told=sizes_told)

    older, live = dict(history.older), dict[int, int]()
    first = history.records[0]
    # The size of a block that the first record frees is unknown.
    untold = 0 if sizes_told or first.is_allocation else first.size
    assert book.at_first == sum(older.values()) - untold
    for index, record in enumerate(history.records):
        if record.is_allocation:
            live[record.address] = index
        else:
            live.pop(record.address, None)
            older.pop(record.address, None)
        assert sorted(book.live_at(index).tolist()) == sorted(live.values())
        assert book.live[index] == sum(history.records[k].size for k in live.values())
        assert book.before[index] == sum(older.values())
        assert book.unaccounted(index) == 0


@given(histories(), st.data())
def test_the_parts_add_up_where_records_are_lost(history: History, data: st.DataObject) -> None:
    n = len(history.records)
    kept = sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1)))

    book = book_of(history, kept=kept)

    for index in range(len(book)):
        assert book.live[index] == book.size[book.live_at(index)].sum()
        assert book.in_use[index] == (
            book.reserved[index] + book.before[index] + book.live[index] + book.unaccounted(index)
        )

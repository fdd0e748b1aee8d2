"""Which record of a capture file each eager op of a trace is: the n-th of a thread finds its own.

An eager op's event holds only its type. The recorder wrote down, thread by thread and in order, the
ops that Python ran (`CaptureFile.sequences`), and left a marker in the trace,
`traceanalyzer:eager` with the number of the thread and the position of the next op, when a thread
ran its first op of a session and from time to time after. From one marker to the next the events
are aligned with the records, type by type.

They need not be the same ones: TensorFlow runs ops of its own in between (`_EagerConst`, a `Cast`
of an argument), and some of Python's ops failed before they ran. Where types and numbers do not
agree, all the longest common subsequences of the two are considered, and an event is given a record
only if each of them pairs it, and always with one of the same signature. A wrong line is worse than
none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from traceanalyzer.native.events import Stretches, align
from traceanalyzer.tables.arrays import mask
from traceanalyzer.tables.vocabulary import EAGER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from traceanalyzer.capture_file.document import CaptureFile, EagerSequence
    from traceanalyzer.trace.columns import Plane


MARKER: Final = "traceanalyzer:eager"
# Pairs of an event and a record that are compared where a stretch does not agree: more, and the
# stretch, whose markers must have been lost, is left alone.
_MOST_PAIRS: Final = 4_000_000


def eager_signatures(
    plane: Plane, order: NDArray[np.int64], capture_file: CaptureFile, session: int | None
) -> NDArray[np.int32]:
    """Return the signature of each event, -1 where it is no eager op or it is not sure which."""
    out = np.full(len(plane), -1, np.int32)
    sequences = [s for s in capture_file.sequences if session is None or s.session == session]
    marker = np.flatnonzero(mask(n == MARKER for n in plane.names)[plane.name_of[order]])
    if not sequences or not len(marker):
        return out
    codes = {op: k for k, op in enumerate(dict.fromkeys(s.op for s in capture_file.signatures))}
    op_of_name = np.array(
        [codes.get(n.removeprefix(EAGER), -1) if n.startswith(EAGER) else -1 for n in plane.names],
        np.int32,
    )
    # Ops that Python never ran are TensorFlow's own.
    rank = np.flatnonzero(op_of_name[plane.name_of[order]] >= 0)
    event = order[rank]

    # The records of all sequences, one after the other.
    parts = [np.repeat(s.signatures.astype(np.int32), s.counts) for s in sequences]
    signature = np.concatenate(parts)
    op = np.array([codes[s.op] for s in capture_file.signatures], np.int32)[signature]
    offset = np.concatenate([[0], np.cumsum([len(p) for p in parts])]).astype(np.int64)
    begin, end, is_open = _records_after(plane, order[marker], sequences, offset)
    # The events of a line that follow a marker, up to the next one or the end of the line.
    limits = np.append(marker, len(order))
    line_ends = plane.lines.event_begin[1:][plane.line_of[order[marker]]]
    first = np.searchsorted(rank, limits[:-1])
    last = np.searchsorted(rank, np.minimum(limits[1:], line_ends))
    paired = align(
        Stretches(op_of_name[plane.name_of[event]], first, last),
        Stretches(op, begin, end),
        signature,
        is_open,
        _MOST_PAIRS,
    )
    found = paired >= 0
    out[event[found]] = signature[paired[found]]
    return out


def _records_after(
    plane: Plane,
    marker: NDArray[np.int64],
    sequences: Sequence[EagerSequence],
    offset: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return which records follow each marker: begin, end, and whether the end is not known.

    It is known where another marker of the same thread and sequence follows on the line. After the
    last one the trace may end before the records do, or they before it. None follow a marker of no
    sequence, or of several; it still ends the stretch before it.
    """
    thread, index = plane.integers("thread"), plane.integers("index")
    is_known = thread.present[marker] & index.present[marker]
    line, place = plane.line_of[marker], index.values[marker]
    sequence = np.full(len(marker), -1, np.int64)
    for k, each in enumerate(sequences):
        within = is_known & (thread.values[marker] == each.thread)
        within &= (place >= each.first_index) & (
            place - each.first_index < offset[k + 1] - offset[k]
        )
        sequence = np.where(within, np.where(sequence == -1, k, -2), sequence)
    known = sequence >= 0
    starts = np.array([s.first_index for s in sequences], np.int64)
    begin = np.where(known, offset[sequence] + place - starts[sequence], 0)
    end = np.where(known, offset[sequence + 1], 0)
    follows = known[:-1] & (sequence[:-1] == sequence[1:]) & (begin[1:] >= begin[:-1])
    follows &= line[:-1] == line[1:]
    end[:-1] = np.where(follows, begin[1:], end[:-1])
    return begin, end, known & ~np.append(follows, np.False_)

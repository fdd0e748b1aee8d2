"""Finds the ops that do not run in every step, such as those of set-up and checkpoints.

An op of a function counts as running whenever the function runs, because an op that became cheap
leaves no event at host tracer level 2. Runs of a TensorFlow 1 session execute parts of a graph,
such as the initializers. So an op of a session is rare only if most ops of its runs are rare.
"""

from typing import Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from traceanalyzer.tables.functions import is_session_graph
from traceanalyzer.tables.host_tables import HostTables
from traceanalyzer.tables.thread_activity import ThreadActivity

_FEWEST_STEPS: Final = 3  # fewer do not show which ops recur
_RARE: Final = 4  # an op that overlaps fewer than 1/4 of the steps is in none


class Recurring(NamedTuple):
    """Masks of the ops of a host that do not run in every step, by row of the op table."""

    is_rare: NDArray[np.bool_]  #: whether an op runs in at most one step, and between few
    is_outside: NDArray[np.bool_]  #: whether it runs outside all steps


def recurring(tables: HostTables) -> Recurring:
    """Find the ops of a host that do not run in every step. If steps are unknown, mark none."""
    ops, threads = tables.ops, tables.threads
    steps = tables.steps.sort_values("start_ps", kind="stable")
    none = np.zeros(len(ops), np.bool_)
    if len(steps) < _FEWEST_STEPS or threads is None or ops.empty:
        return Recurring(none, none)
    starts = steps["start_ps"].to_numpy(np.int64)
    # Steps can overlap, e.g. those of two threads: any that has not ended counts.
    ends = np.maximum.accumulate(starts + steps["duration_ps"].to_numpy(np.int64))
    known = threads.row >= 0
    of_session = _of_session(ops, threads)
    of_row = _groups(ops, of_session)
    at = threads.start_ps[known]
    slot = np.searchsorted(starts, at, side="right") - 1  # -1 before the first step
    is_inside = (slot >= 0) & (at < ends[slot])
    seen = pd.DataFrame({"beside": slot, "inside": np.where(is_inside, slot, np.nan)})
    slots = seen.groupby(of_row[threads.row[known]]).nunique().reindex(of_row, fill_value=0)
    beside, inside = (slots[name].to_numpy() for name in ("beside", "inside"))
    is_rare = (beside > 0) & (inside <= 1) & (beside <= max(1, len(steps) // _RARE))
    is_rare &= ~_in_regular_runs(of_session, threads, is_rare)
    return Recurring(is_rare, is_rare & (inside == 0))


def _of_session(ops: pd.DataFrame, threads: ThreadActivity) -> NDArray[np.bool_]:
    """Return a mask of the ops that ran in a session: neither in a function nor eagerly."""
    in_call = np.zeros(len(ops), np.bool_)
    in_call[threads.row[(threads.row >= 0) & (threads.call != 0)]] = True
    names = ops["function"].astype(object)
    is_named = names.notna() & ~names.map(is_session_graph, na_action="ignore").eq(other=True)
    found: NDArray[np.bool_] = in_call & ~(is_named | ops["is_eager"]).to_numpy(bool)
    return found


def _in_regular_runs(
    of_session: NDArray[np.bool_], threads: ThreadActivity, is_rare: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return a mask of the ops in session runs where at least half of the ops recur."""
    shown = (threads.call != 0) & np.append(of_session, np.False_)[threads.row]
    runs = pd.DataFrame({"call": threads.call[shown], "row": threads.row[shown]}).drop_duplicates()
    recur = pd.Series(~is_rare[runs["row"]], runs.index).groupby(runs["call"]).transform("mean")
    found = np.zeros(len(of_session), np.bool_)
    found[runs["row"][recur >= 1 / 2]] = True
    return found


def _groups(ops: pd.DataFrame, of_session: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the group of each row: one for all ops of a function, and one for each other op."""
    functions, _ = pd.factorize(ops["function"].astype(str))
    alone = ops["is_eager"].to_numpy(bool) | of_session
    codes, _ = pd.factorize(np.where(alone, np.arange(len(ops)) + len(ops), functions))
    return codes.astype(np.int64)

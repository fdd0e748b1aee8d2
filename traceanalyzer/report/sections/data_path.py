"""The data path of ops on the CPU: the GPU op before, the transfers, and the GPU op after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.format import counted
from traceanalyzer.model.blocks import DataPath, PathStep
from traceanalyzer.units import PS_PER_US

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    import pandas as pd

    from traceanalyzer.report.page_facts import PageFacts


def data_path(facts: PageFacts, op_ids: Collection[str]) -> Iterator[DataPath]:
    """Yield the path through ops on the CPU, if they take data from a GPU or return some to it.

    Bytes are the mean of one run of the ops: all transfers, divided by how often the ops ran.
    """
    transfers = facts.run.transfers
    if transfers.empty or not op_ids:
        return
    arriving = transfers[(transfers["direction"] == "d2h") & transfers["consumer"].isin(op_ids)]
    leaving = transfers[(transfers["direction"] == "h2d") & transfers["producer"].isin(op_ids)]
    if arriving.empty and leaving.empty:
        return
    ops = facts.run.ops
    own = ops[ops["op_id"].isin(op_ids)]
    runs = max(1, int(own["occurrences"].median()))
    took = int(own["host_self_ps"].sum()) / PS_PER_US / runs
    middle = PathStep(
        label=_label(own),
        device="cpu",
        us=round(took, 3),
        op_id=str(own["op_id"].iloc[0]),
        bytes_after=_bytes(leaving, runs),
        is_marked=True,
    )
    before = _end(arriving, "producer", bytes_after=_bytes(arriving, runs))
    after = _end(leaving, "consumer", bytes_after=None)
    yield DataPath(steps=tuple(step for step in (before, middle, after) if step is not None))


def _label(ops: pd.DataFrame) -> str:
    by_time = ops.sort_values("host_self_ps", ascending=False, kind="stable")
    types = by_time["type"].astype(str).drop_duplicates().tolist()
    more = len(ops) - 1
    return types[0] if not more else f"{types[0]} and {counted(more, 'more')}"


def _end(transfers: pd.DataFrame, end: str, *, bytes_after: float | None) -> PathStep | None:
    """Return the op at an end of transfers that most bytes belong to."""
    if transfers.empty:
        return None
    named = transfers.dropna(subset=[f"{end}_name"])
    if named.empty:
        return PathStep(label="an unknown op", device="gpu", bytes_after=bytes_after)
    names = named[f"{end}_name"].astype(str)
    sizes = named["bytes"].fillna(0).astype("int64").groupby(names).sum()
    name = str(sizes.idxmax())
    ids = named.loc[names == name, end].dropna()
    op_id = None if ids.empty else str(ids.iloc[0])
    label = name.rpartition("/")[2]
    if len(sizes) > 1:
        label = f"{label} and {counted(len(sizes) - 1, 'more')}"
    return PathStep(label=label, device="gpu", op_id=op_id, bytes_after=bytes_after)


def _bytes(transfers: pd.DataFrame, runs: int) -> float | None:
    known = transfers["bytes"].dropna()
    return None if known.empty else round(int(known.sum()) / runs, 1)

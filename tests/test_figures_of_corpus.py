"""Every figure of the recorded GPU traces against an independent decoder, wherever time begins."""

from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import pytest

import traceanalyzer as ta
from tests.corpus import CORPUS, needs_corpus, slow_but
from tests.reference_figures import Figures, figures_of
from tests.xspace_proto import XSpace
from traceanalyzer.health import trace_health
from traceanalyzer.run import Run
from traceanalyzer.timeline.walk import Phase

pytestmark = needs_corpus

GPU_FOLDERS: Final = ("tfgpu-", "jax-rocm-")
RECORDED: Final = sorted(
    str(file.relative_to(CORPUS))
    for file in CORPUS.glob("*/plugins/profile/*/*.xplane.pb")
    if file.relative_to(CORPUS).parts[0].startswith(GPU_FOLDERS)
)
TRACES: Final = slow_but(lambda trace: "2023_11_07_18_18_59" in trace, RECORDED)
DAY_NS: Final = 86_400 * 10**9
EPOCH_NS: Final = 1_700_000_000 * 10**9
NUMBERS: Final = ("start_ps", "duration_ps")


@lru_cache(maxsize=2)
def original(trace: str) -> tuple[Run, Figures]:
    content = (CORPUS / trace).read_bytes()
    return ta.load(CORPUS / trace), figures_of(XSpace.FromString(content))


def moved(trace: str, folder: Path, by_ns: int) -> Path:
    space = XSpace.FromString((CORPUS / trace).read_bytes())
    for line in (line for plane in space.planes for line in plane.lines):
        line.timestamp_ns += by_ns
    file = folder / (CORPUS / trace).name
    file.write_bytes(space.SerializeToString(deterministic=True))  # names else come in any order
    return file


def figures_in(run: Run) -> Figures:
    """The same figures as our tables have them."""
    (host,) = run.hosts
    kernels = run.kernels.groupby(run.kernels["device"].astype(str))["duration_ps"]
    copies = run.transfers[run.transfers["device"].notna()]
    ways = copies.groupby([copies["device"].astype(str), copies["direction"].astype(str)])
    marked = host.tables.steps[host.tables.steps["source"].isin(["step_num", "line Steps"])]
    starts, lasting = (marked[name].to_numpy(np.int64).tolist() for name in NUMBERS)
    return Figures(
        kernels={str(name): (len(took), int(took.sum())) for name, took in kernels},
        transfers={
            (name, way): (len(rows), int(rows["duration_ps"].sum()), int(rows["bytes"].sum()))
            for (name, way), rows in ways
        },
        busy={
            device.device: int(
                device.parts.duration_ps[
                    np.isin(device.parts.phase, (Phase.COMPUTE, Phase.COPY))
                ].sum()
            )
            for device in host.timeline.devices
        },
        steps=[(a - host.start_ps, b) for a, b in zip(starts, lasting, strict=True)],
        memory={use.allocator: use.peak.bytes for use in host.memory if use.peak is not None},
    )


def without_origin(table: pd.DataFrame, run: Run) -> pd.DataFrame:
    times = [name for name in ("start_ps", "launch_ps") if name in table]
    return table.assign(**{name: table[name] - run.hosts[0].start_ps for name in times})


@pytest.mark.parametrize("trace", TRACES)
def test_an_independent_decoder_finds_the_same_figures(trace: str) -> None:
    run, theirs = original(trace)
    ours = figures_in(run)

    assert ours.kernels == theirs.kernels
    assert ours.transfers == theirs.transfers
    assert ours.busy == theirs.busy
    assert ours.memory == theirs.memory
    if ours.steps:  # else nothing marks them, or Keras' own functions do, which are preferred
        assert ours.steps == theirs.steps


@pytest.mark.parametrize(
    "by_ns",
    [
        pytest.param(EPOCH_NS, id="epoch"),
        pytest.param(60 * DAY_NS, id="60 days", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("trace", TRACES)
def test_no_figure_depends_on_where_the_clock_begins(
    trace: str, by_ns: int, tmp_path: Path
) -> None:
    _, theirs = original(trace)
    run = ta.load(moved(trace, tmp_path, 0))
    later = ta.load(moved(trace, tmp_path, by_ns))

    ours = figures_in(later)
    assert ours == figures_in(run)
    assert ours.kernels == theirs.kernels
    for name in ("ops", "kernels", "transfers", "allocations", "steps"):
        pd.testing.assert_frame_equal(
            without_origin(getattr(later, name), later), without_origin(getattr(run, name), run)
        )
    for a, b in zip(later.hosts[0].timeline.devices, run.hosts[0].timeline.devices, strict=True):
        assert (a.parts.duration_ps == b.parts.duration_ps).all()
        assert (a.parts.phase == b.parts.phase).all()
    assert "impossible_times" not in {health.id for health in trace_health(later)}

"""Steps, and where their time went, against XProf's overview page and input pipeline analyzer.

Both pages show a step's time in eight parts that add up to it. Three figures are defined alike in
both tools, and they are equal:

* the time of a step, on hosts without a GPU (`event_span.cc`, `StepDetails::StepTime`);
* the time a step waits for input (`HOST_WAIT_INPUT`); for an eager request, we count the whole op;
* the time in which any stream of a device works in a step (`DEVICE_COMPUTE_32` and `_16`).

XProf gives each moment to the highest-ranked activity in it (`event_span.h`: devices before hosts);
we attribute it to what a device, or the program, waited for. Files named here are XProf's, in
`xprof/convert` and `xprof/utils`, release 2.24.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import traceanalyzer as ta
from tests.corpus import CORPUS, slow_but
from tests.tables.reading import rows
from tests.xprof import table, tool_data
from tests.xspace_proto import XSpace
from traceanalyzer.run import Host
from traceanalyzer.timeline.device_parts import device_work
from traceanalyzer.timeline.intervals import Intervals, inside_ps, union
from traceanalyzer.timeline.walk import Phase
from traceanalyzer.trace.columns import Plane
from traceanalyzer.trace.files import read_host

SAMPLES: Final = Path(__file__).resolve().parents[1] / "sample_traces"
MARKED: Final = slow_but(
    "tf_function".__eq__, ["eager_ops", "logical_devices", "recommender", "tf_function"]
)
FATMA: Final = ("2021_02_02_12_50_49", "2021_02_02_12_57_01")  # of float32, partly float16
ON_GPUS: Final = slow_but(
    ("tfgpu-e4040-2023-hd2551", "2023_11_07_18_18_59").__eq__,
    [
        ("tfgpu-e4040-2023-hd2551", "2023_11_07_18_18_59"),
        *(("tfgpu-fatma-cnn-sandor", run) for run in FATMA),
    ],
)
ALIKE: Final = 0.02
SAME: Final = 1e-6  # sums of the same picoseconds
MS: Final = 1e9  # in picoseconds
FEW: Final = 5  # of more steps XProf leaves out the first and the last


class Step(NamedTuple):
    """A row of XProf's table; the fields are named as its columns are, times in milliseconds."""

    name: str
    compute: float
    between_devices: float
    collectives: float
    host: float
    launch: float
    input: float
    output: float
    compiling: float
    others: float
    total: float

    @property
    def parts(self) -> tuple[float, ...]:
        return self[1:-1]


def xprof_steps(file: Path, folder: Path, tool: str = "input_pipeline_analyzer") -> list[Step]:
    (found,) = (
        t
        for t in tool_data(file, tool, folder)
        if t.get("cols") and t["cols"][0]["id"] == "stepnum"
    )
    return [
        Step(
            row["stepnum"],
            row["deviceComputeTimeMs"],
            row["deviceToDeviceTimeMs"],
            row["deviceCollectivesTimeMs"],
            row["hostComputeTimeMs"],
            row["kernelLaunchTimeMs"],
            row["infeedTimeMs"],
            row["outfeedTimeMs"],
            row["compileTimeMs"],
            row["otherTimeMs"],
            row["stepTimeMs"],
        )
        for row in table(found)
    ]


def changed(file: Path, folder: Path, change: Callable[[Any], None]) -> Path:
    """A copy of a trace that differs in one point."""
    space = XSpace.FromString(file.read_bytes())
    change(space)
    written = folder / "changed.xplane.pb"
    written.write_bytes(space.SerializeToString())
    return written


def sample(case: str) -> Path:
    (file,) = (SAMPLES / case).rglob("*.xplane.pb")
    return file


def recorded(folder: str, run: str = "*") -> Path:
    """A trace of the corpus; of several hosts, or runs, the first."""
    found = sorted((CORPUS / folder / "plugins" / "profile").glob(f"{run}/*.xplane.pb"))
    if not found:
        pytest.skip(f"{folder} of the corpus of recorded traces (../shared/corpus) is not here")
    return found[0]


@lru_cache(maxsize=32)
def host_of(file: Path) -> Host:
    return ta.load(file).hosts[0]


def bounds(steps: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    start = steps["start_ps"].to_numpy(np.int64)
    return start, start + steps["duration_ps"].to_numpy(np.int64)


def in_steps_ms(times: Intervals, steps: pd.DataFrame) -> list[float]:
    return (inside_ps(times, *bounds(steps)) / MS).tolist()


def durations_ms(steps: pd.DataFrame) -> list[float]:
    return (steps["duration_ps"].to_numpy(np.int64) / MS).tolist()


def phases_ms(host: Host, steps: pd.DataFrame, *phases: Phase) -> list[float]:
    """What went to some phases in each step, of the host's first device, or of its program."""
    devices = host.timeline.devices
    parts = devices[0].parts if devices else host.timeline.program
    assert parts is not None
    start, end = bounds(steps)
    return (parts.within(start, end - start)[list(phases)].sum(axis=1) / MS).tolist()


def host_plane(host: Host) -> Plane:
    assert host.file is not None
    (plane,) = (p for p in read_host(host.file).planes if p.name == "/host:CPU")
    return plane


def events_of(plane: Plane, chosen: Callable[[str], object]) -> NDArray[np.bool_]:
    return np.array([bool(chosen(name)) for name in plane.names], np.bool_)[plane.name_of]


def times(plane: Plane, chosen: NDArray[np.bool_]) -> Intervals:
    return union(plane.start_ps[chosen], plane.duration_ps[chosen])


def device_times(host: Host) -> Intervals:
    work = device_work(host.tables)
    return union(work.start_ps, work.end_ps - work.start_ps)


# --------------------------------------------------------------------- what is defined alike


@pytest.mark.parametrize("case", MARKED)
def test_steps_of_the_samples_take_as_long(case: str, tmp_path: Path) -> None:
    """Of more than five steps XProf leaves out the first and the last, whole or not
    (`step_events_to_steps_db.cc`, `maybe_drop_incomplete_steps`); we tell which are."""
    file = sample(case)
    steps = ta.load(file).steps
    shared = steps.iloc[1:-1] if len(steps) > FEW else steps

    theirs = xprof_steps(file, tmp_path)

    assert [f"{name} {number}" for name, number in rows(shared, "name", "step")] == [
        step.name for step in theirs
    ]
    assert durations_ms(shared) == pytest.approx([step.total for step in theirs], rel=SAME)
    assert (case == "recommender") == (len(shared) < len(steps))
    assert "partial" not in set(steps["kind"])


def test_steps_of_the_sample_wait_as_long_for_input(tmp_path: Path) -> None:
    """XProf counts the kernel that hands an element over. Asked eagerly, the program waits for the
    whole op around it, and so we count that: what TensorFlow itself takes about the kernel too."""
    host = host_of(sample("recommender"))
    steps, plane = host.tables.steps.iloc[1:-1], host_plane(host)
    kernel = times(plane, events_of(plane, "IteratorGetNextOp::DoCompute".__eq__))
    whole = times(plane, events_of(plane, "EagerLocalExecute: IteratorGetNext".__eq__))

    theirs = [step.input for step in xprof_steps(sample("recommender"), tmp_path)]

    assert host.input_pipeline is not None
    assert host.input_pipeline.waits is not None
    waits = host.input_pipeline.waits.table["wait_ps"].to_numpy(np.int64)[1:-1] / MS
    assert min(theirs) > 0
    assert theirs == pytest.approx(in_steps_ms(kernel, steps), rel=SAME)
    assert waits.tolist() == pytest.approx(in_steps_ms(whole, steps), rel=SAME)


@pytest.mark.parametrize(("folder", "run"), ON_GPUS)
def test_devices_work_as_long_in_each_step(folder: str, run: str, tmp_path: Path) -> None:
    """XProf's step ends with the last work for it on the device, ours when the program goes on: the
    work itself is the same."""
    file = recorded(folder, run)
    host = host_of(file)
    # The steps that XProf leaves out are those that the recording cut, which have no marker.
    shared = host.tables.steps

    theirs = xprof_steps(file, tmp_path)

    worked = phases_ms(host, shared, Phase.COMPUTE, Phase.COPY)
    assert worked == pytest.approx([step.compute for step in theirs], rel=ALIKE)
    assert in_steps_ms(device_times(host), shared) == pytest.approx(worked, rel=SAME)


# ------------------------------------------------------------------- which steps there are


def test_xprof_sees_no_steps_of_keras_3(tmp_path: Path) -> None:
    """Keras 3 marks its batches, but not as the roots of what goes on in them (stat `_r`), and
    XProf takes no others for steps. With the stat it finds them, and both tools agree."""
    file = sample("keras_fit")
    host = host_of(file)
    steps = host.tables.steps

    def make_roots(space: Any) -> None:  # noqa: ANN401  # protobuf's message
        (plane,) = (p for p in space.planes if p.name == "/host:CPU")
        (root,) = (k for k, stat in plane.stat_metadata.items() if stat.name == "_r")
        for event in (event for line in plane.lines for event in line.events):
            if plane.event_metadata[event.metadata_id].name == "Profiled batch":
                event.stats.add(metadata_id=root, int64_value=1)

    assert xprof_steps(file, tmp_path) == []
    theirs = xprof_steps(changed(file, tmp_path, make_roots), tmp_path)
    assert len(steps) == len(theirs) == 5
    assert durations_ms(steps) == pytest.approx([step.total for step in theirs], rel=SAME)
    assert host.input_pipeline is not None
    assert host.input_pipeline.waits is not None
    waits = host.input_pipeline.waits.table["wait_ps"].to_numpy(np.int64) / MS
    assert waits.tolist() == pytest.approx([step.input for step in theirs], rel=SAME)


# ------------------------------------------------------------------------ steps on devices


@pytest.mark.parametrize(("folder", "run"), ON_GPUS)
def test_xprof_takes_copies_for_computing(folder: str, run: str, tmp_path: Path) -> None:
    """XProf knows a copy by the name `MemcpyHToD` (`tf_op_utils.h`), and TensorFlow calls it
    `MemcpyH2D` (`cupti_collector.cc`). With XProf's own names its figures are ours."""
    file = recorded(folder, run)
    host = host_of(file)
    shared = host.tables.steps

    def rename(space: Any) -> None:  # noqa: ANN401  # protobuf's message
        for event in (e for p in space.planes for e in p.event_metadata.values()):
            event.name = re.sub("^Memcpy([HD])2([HD])$", r"Memcpy\1To\2", event.name)

    before = xprof_steps(file, tmp_path)
    theirs = xprof_steps(changed(file, tmp_path, rename), tmp_path)

    assert {step.input + step.output + step.between_devices for step in before} == {0}
    assert all(a.compute > b.compute for a, b in zip(before, theirs, strict=True))
    computed = phases_ms(host, shared, Phase.COMPUTE)
    assert computed == pytest.approx([step.compute for step in theirs], rel=ALIKE)
    # While a kernel runs as well, a copy is no part of either figure.
    copied = phases_ms(host, shared, Phase.COPY)
    assert copied == pytest.approx(
        [step.input + step.output + step.between_devices for step in theirs], rel=ALIKE
    )

"""Each step's parts, the headline, and the changes of a report agree with each other.

Over the samples, the corpus, and the captures of the labelled and twin programs.
"""

from pathlib import Path
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

import traceanalyzer as ta
from tests.corpus import CORPUS, needs_corpus, recorded_runs, slow_but
from tests.emulator.captures import captured
from tests.labelled import HELD_OUT, PROGRAMS, QUESTIONS, LabelledProgram
from tests.labelled.scoring import recorded
from tests.samples import CASES, Case
from traceanalyzer.diagnosis import diagnose
from traceanalyzer.model import Report
from traceanalyzer.model.blocks import Quantity
from traceanalyzer.model.figures import DeviceTimeline
from traceanalyzer.report.assemble import assemble
from traceanalyzer.run import Host, Run
from traceanalyzer.step_parts import DeviceSteps, step_parts
from traceanalyzer.tables.thread_activity import ThreadState
from traceanalyzer.timeline.intervals import Intervals, inside_ps, union, without
from traceanalyzer.timeline.walk import Parts, Phase, program_segments

_UNREADABLE: Final = {"broken-xprof-utf8-mangled", "oldfmt-tfprofiler-demo"}
_QUICK: Final = {
    ("tfgpu-e4040-2023-hd2551", "2023_11_07_18_18_59"),
    ("tfcpu-on-gpu-host-fatma", "2021_02_03_21_48_13"),
    ("oldfmt-ruben-noxplane", "2020_06_05_14_33_48"),
}
_TWINS: Final = sorted((Path(__file__).parent / "twin" / "programs").glob("*.py"))
# Others may hold the time, so that an op beside them is not what was waited for.
_OF_OTHERS: Final = [
    p for p in Phase if p not in {Phase.HOST_OP, Phase.RUNTIME, Phase.UNATTRIBUTED}
]
# The parts of a step that a change can shorten, by its kind.
_OF_OPS: Final = ("cpu_op", "unplaced", "transfer", "input")
_SAVES: Final = {
    "input": ("input", "transfer"),
    "runtime": ("launch", "runtime", "program", "input"),
    "sync": ("launch", "runtime", "program", "cpu_op", "input", "transfer"),
    "gpu": ("cpu_op", "unplaced"),
    "retracing": ("preparation",),
}
_LEAST_US: Final = 0.002  # figures of a report have three decimals


def check(run: Run) -> None:
    """Check each step of a run, and its report."""
    for host in run.hosts:
        devices: list[tuple[str | None, Parts]]
        devices = [(device.device, device.parts) for device in host.timeline.devices]
        if host.timeline.program is not None:
            devices.append((None, host.timeline.program))
        for name, parts in devices:
            for steps in step_parts(run):
                if (steps.host, steps.device) == (host.name, name):
                    check_steps(run, host, parts, steps)
    check_report(assemble(diagnose(run)))


def check_steps(run: Run, host: Host, parts: Parts, steps: DeviceSteps) -> None:
    """Parts add up, and CPU ops have the time of their events that nothing else covers."""
    took, none = steps.took_us, np.zeros(len(steps.duration_us))
    cpu_op = took.get("cpu_op", none)
    low, high = steps.cpu_op_bounds_us
    assert sum(took.values(), none) == pytest.approx(steps.duration_us, abs=_LEAST_US)
    assert (low <= cpu_op + _LEAST_US).all()
    assert (cpu_op <= high + _LEAST_US).all()
    if host.tables.threads is None:
        return
    origin_ps = min(each.start_ps for each in run.hosts)
    start_ps = np.round(steps.start_us * 10**6).astype(np.int64) + origin_ps
    end_ps = start_ps + np.round(steps.duration_us * 10**6).astype(np.int64)
    ran = of_threads(host, ThreadState.HOST_OP)
    in_calls = of_threads(host, ThreadState.HOST_OP, of=host.tables.threads.call != 0)
    awaited = of_threads(host, ThreadState.HOST_OP, of=in_calls_of_the_program(host))
    others = of_threads(host, ThreadState.INPUT, ThreadState.LAUNCH, ThreadState.UNPLACED)
    of_others = parts.times(np.isin(parts.phase, _OF_OTHERS))
    alone, awaited = (without(without(each, others), of_others) for each in (in_calls, awaited))
    assert (high <= inside_ps(ran, start_ps, end_ps) / 10**6 + _LEAST_US).all()
    assert (inside_ps(awaited, start_ps, end_ps) / 10**6 <= cpu_op + _LEAST_US).all()
    # Whether something waited for a call of another thread is not always recorded.
    assert (inside_ps(alone, start_ps, end_ps) / 10**6 <= high + _LEAST_US).all()


def in_calls_of_the_program(host: Host) -> NDArray[np.bool_]:
    """A mask of the segments in calls that the program's thread made, or that these made."""
    threads = host.tables.threads
    assert threads is not None
    own = np.setdiff1d(threads.call[program_segments(threads)], [0])
    nested = threads.ops.nested[np.isin(threads.ops.outermost, own)]
    found: NDArray[np.bool_] = np.isin(threads.call, [*own, *nested])
    return found


def of_threads(host: Host, *states: ThreadState, of: NDArray[np.bool_] | None = None) -> Intervals:
    """The times of threads in some states; `of`: only in these segments."""
    threads = host.tables.threads
    assert threads is not None
    chosen = np.isin(threads.state, states) & (True if of is None else of)
    start_ps = threads.start_ps[chosen]
    return union(start_ps, threads.end_ps[chosen] - start_ps)


def check_report(report: Report) -> None:
    """No change saves more than its part of a step, and the headline says what the bar says."""
    devices = () if report.timeline is None else report.timeline.devices
    if not devices:
        return
    for change in report.changes:
        if change.saving.high_us is None or change.saving.per == "once":
            continue
        if (change.saving.per == "step") == (devices[0].steps is None):
            continue
        kinds = _SAVES.get(change.kind, _OF_OPS)
        most = max(sum(part_us(device, kind) for kind in kinds) for device in devices)
        assert change.saving.high_us <= most + _LEAST_US, change.title
    assert report.page is not None
    if report.page.kind == "C" and devices[0].steps:
        cpu_us = [part_us(device, "cpu_op") for device in devices]
        shown = [q.value for q in report.page.happened if isinstance(q, Quantity)]
        mean_us = sum(cpu_us) / len(cpu_us)
        assert not mean_us or any(us == pytest.approx(mean_us, abs=_LEAST_US) for us in shown)


def part_us(device: DeviceTimeline, kind: str) -> float:
    """The most that a part of the bar can be."""
    return sum(p.us if p.high_us is None else p.high_us for p in device.phases if p.phase == kind)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_of_samples(case: Case) -> None:
    check(ta.load(case.logs))


@needs_corpus
@pytest.mark.parametrize(("folder", "name"), slow_but(_QUICK.__contains__, recorded_runs()))
def test_of_real_traces(folder: str, name: str) -> None:
    if folder not in _UNREADABLE:
        check(ta.load(CORPUS / folder, run=name))


@pytest.mark.slow
@pytest.mark.parametrize("program", [*PROGRAMS, *HELD_OUT, *QUESTIONS], ids=lambda p: p.name)
def test_of_labelled_programs(program: LabelledProgram) -> None:
    check(recorded(program).run())
    check(recorded(program, gpus=0).run())


@pytest.mark.slow
@pytest.mark.parametrize("program", _TWINS, ids=lambda path: path.stem)
def test_of_twin_programs(program: Path) -> None:
    for gpus, environment in ((0, None), (1, {"HAS_GPU": "1"})):
        check(captured(program, gpus=gpus, environment=environment, may_fail=True).run())

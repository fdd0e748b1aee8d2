"""Functions that TensorFlow traces again and again, in hand-written traces."""

import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

import traceanalyzer as ta
from tests.traces import Event, call, event, host, line, ref, us, write, xspace
from traceanalyzer.capture_file.document import CaptureFile, Frame
from traceanalyzer.capture_file.function_records import TracedArgument, Tracing
from traceanalyzer.changes import Change, changes_of
from traceanalyzer.check.breaches import breaches
from traceanalyzer.check.budget import Budget
from traceanalyzer.compare.differences import compare
from traceanalyzer.model import Report
from traceanalyzer.report.assemble import assemble
from traceanalyzer.run import Run

CALLS = 20


def python_call(number: int, *, traced: bool, xla: bool = False, name: str = "fit") -> Event:
    """One of the calls, each 200 us long. One that traces builds a graph for half of that time."""
    at = 200 * number
    stat = f"{'traced' if traced else 'notTraced'}-{'xla' if xla else 'nonXla'}"
    own = event(name, us(at, 190), tf_function_call=ref(stat), tracing_count=number // 2 + 1)
    graph = event("tf.function-graph_building", us(at, 100)) if traced else ()
    return own(graph, call(f"__inference_{name}_{number // 2}", us(at + 150, 30)))


def trace(folder: Path, every: int = 2, *, xla: bool = False) -> Run:
    """A function that is traced in each call of so many."""
    calls = (python_call(k, traced=k % every == 0, xla=xla) for k in range(CALLS))
    write(folder, xspace(host(line("python")(*calls))))
    return ta.load(folder)


def tracing(number: int, *arguments: tuple[str, str, str], of: int = 0) -> Tracing:
    return Tracing(
        name=f"__inference_fit_{number}",
        number=number + 1,
        object=of,
        code="fit",
        file="model.py",
        line=7,
        frame=0,
        arguments=tuple(TracedArgument(name=n, kind=k, text=t) for n, k, t in arguments),
    )


def captured(run: Run, *tracings: Tracing) -> Run:
    """The run beside a capture file that recorded these traces, all called in one line."""
    frames = (Frame(file="train.py", line=31, code="<module>", is_user=True, text="fit(x, k)"),)
    file = CaptureFile(tool="", host="h", complete=True, frames=frames, tracings=tracings)
    (own,) = run.hosts
    return replace(run, hosts=(replace(own, capture_file=file),))


def retracing(run: Run) -> list[Change]:
    return [change for change in changes_of(ta.diagnose(run)) if change.kind == "retracing"]


def test_a_trace_alone_shows_how_often_and_how_long(tmp_path: Path) -> None:
    (change,) = retracing(trace(tmp_path))

    assert "`fit` was traced again 9 times in 20 calls" in change.detail
    assert "reduce_retracing" in change.instead
    assert change.certainty == "likely"
    assert change.saving.per == "step"
    # Half of the steps trace again: 100 us to build the graph, and Python's 60 us around.
    assert change.saving.high_us == 80


def test_what_is_traced_at_first_only_is_no_finding(tmp_path: Path) -> None:
    assert not retracing(trace(tmp_path / "once", every=CALLS))
    assert not retracing(trace(tmp_path / "three variants", every=8))


BATCH = ("x", "tensor", "float32[64,8]")


@pytest.mark.parametrize(
    ("kind", "text", "title", "instead"),
    [
        ("value", "{}", "Pass `k` to `fit` as a tensor", "tf.constant(k)"),
        ("tensor", "int64[{}]", "all shapes of `k`", "reduce_retracing=True"),
        ("tensor", "int{}[3]", "one dtype|the same dtype", ""),
        ("object", "Scheduler #{}", "the same object", ""),
        ("value", "3", "only once", ""),
    ],
)
def test_a_capture_names_the_argument_that_changes(
    tmp_path: Path, kind: str, text: str, title: str, instead: str
) -> None:
    records = (tracing(k, BATCH, ("k", kind, text.format(k))) for k in range(10))

    (change,) = retracing(captured(trace(tmp_path), *records))

    assert re.search(title, change.title)
    assert instead in change.instead
    assert change.place == ("train.py", 31)


def test_xla_compiles_for_each_shape_whatever_tensorflow_traces(tmp_path: Path) -> None:
    records = (tracing(k, ("x", "tensor", f"int64[{k}]")) for k in range(10))

    (change,) = retracing(captured(trace(tmp_path, xla=True), *records))

    assert "same shape" in change.title
    assert "drop_remainder=True" in change.instead


def test_a_function_that_is_made_again_and_again_is_named(tmp_path: Path) -> None:
    records = (tracing(k, BATCH, of=k) for k in range(10))

    (change,) = retracing(captured(trace(tmp_path), *records))

    assert change.title == "Create the function `fit` once"


def test_not_all_traces_have_to_be_recorded(tmp_path: Path) -> None:
    records = (tracing(k, BATCH, ("k", "value", str(k))) for k in range(4))

    (change,) = retracing(captured(trace(tmp_path), *records))

    assert "traced again 9 times in 20 calls" in change.detail
    assert "`k`" in change.title


def test_functions_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """Each of two functions is traced again four times, in other lines of code."""
    records = [tracing(k, BATCH, ("k", "value", str(k))) for k in range(10)]
    records = [replace(each, line=9) if at % 2 else each for at, each in enumerate(records)]

    found = retracing(captured(trace(tmp_path), *records))

    assert [change.detail.count("again 4 times in 10 calls") for change in found] == [1, 1]
    assert len({change.id for change in found}) == 2


def report(run: Run) -> Report:
    return assemble(ta.diagnose(run))


def test_comparisons_and_checks_name_it(tmp_path: Path) -> None:
    good, bad = (report(trace(tmp_path / str(k), every=k)) for k in (CALLS, 2))

    assert any("`fit` was traced again" in d.text for d in compare(good, bad).differences)
    found = breaches(bad, Budget(), good, date(2026, 1, 1))
    assert any("`fit` was traced again" in breach.message for breach in found)
    assert not [b for b in breaches(bad, Budget(), bad, date(2026, 1, 1)) if not b.is_unknown]

"""Loading a profile: which run, which hosts, and nothing written."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import traceanalyzer as ta
from tests.performance.synthetic import synthetic_trace
from tests.tables.reading import problems, rows
from tests.traces import (
    Event,
    eager,
    event,
    gpu,
    host,
    line,
    op,
    ps,
    ref,
    step,
    stream,
    us,
    write,
    xspace,
)
from traceanalyzer.diagnosis import diagnose
from traceanalyzer.errors import TraceFormatError, TraceTooLargeError
from traceanalyzer.health import trace_health
from traceanalyzer.report.assemble import assemble
from traceanalyzer.report.document import dumps
from traceanalyzer.run import Run


def space(*types: str, hostname: str = "a") -> Any:  # noqa: ANN401  # a protobuf message
    """A trace of some eager ops."""
    ops = [eager(kind, us(20 * k, 9)) for k, kind in enumerate(types)]
    return xspace(host(line("python")(step(1, us(0, 20 * len(ops)))(ops))), hostname=hostname)


def test_a_run_and_its_diagnosis_print_as_one_short_line(tmp_path: Path) -> None:
    run = ta.load(write(tmp_path, space("Neg", "Abs")))
    assert repr(run).startswith(f"Run({run.name!r}, 1 host, 2 ops)")
    assert repr(diagnose(run)).startswith(f"Diagnosis({run!r}, ")
    assert len(repr(diagnose(run))) < 200


def names(run: Run) -> list[str]:
    return sorted(rows(run.ops, "name"))


class TestSeveralHosts:
    def test_their_tables_are_joined(self, tmp_path: Path) -> None:
        write(tmp_path, space("Neg"), host="a")
        write(tmp_path, space("Neg", "Abs"), host="b", compressed=True)

        run = ta.load(tmp_path)

        assert [h.name for h in run.hosts] == ["a", "b"]
        assert sorted(rows(run.ops, "host", "name")) == [("a", "Neg"), ("b", "Abs"), ("b", "Neg")]
        assert run.ops["op_id"].is_unique
        assert problems(run) == []
        assert run.failures == ()

    def test_one_that_cannot_be_read_costs_itself_alone_and_is_named(self, tmp_path: Path) -> None:
        write(tmp_path, space("Neg"), host="a")
        write(tmp_path, b"not a trace at all, but a text file", host="b")
        write(tmp_path, b"", host="c")
        write(tmp_path, space("Abs"), host="d")

        run = ta.load(tmp_path)

        assert [h.name for h in run.hosts] == ["a", "d"]
        assert names(run) == ["Abs", "Neg"]
        assert [f.host for f in run.failures] == ["b", "c"]
        assert not any(f.is_duplicate for f in run.failures)
        assert all(f.reason.strip() and "\n" not in f.reason for f in run.failures)
        assert "b.xplane.pb" in run.failures[0].reason

    def test_none_that_can_be_read_is_an_error_in_one_line(self, tmp_path: Path) -> None:
        write(tmp_path, b"not a trace at all, but a text file", host="a")
        write(tmp_path, b"\x00" * 50, host="b")

        with pytest.raises(TraceFormatError) as caught:
            ta.load(tmp_path)

        assert "a.xplane.pb" in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_two_with_the_same_bytes_are_counted_once(self, tmp_path: Path) -> None:
        write(tmp_path, space("Neg"), host="a")
        write(tmp_path, space("Abs"), host="b")
        write(tmp_path, space("Neg"), host="c")

        run = ta.load(tmp_path)

        assert [h.name for h in run.hosts] == ["a", "b"]
        assert rows(run.ops, "occurrences") == [1, 1]
        (twin,) = run.failures
        assert (twin.host, twin.is_duplicate) == ("c", True)
        assert "a" in twin.reason


_PEAK = """
import sys
from contextlib import suppress
from pathlib import Path
from traceanalyzer.cli import main
with suppress(SystemExit):
    main(["report", sys.argv[1], "-o", sys.argv[2]])
# Not ru_maxrss: across exec it keeps the peak of the process that started this one.
lines = Path("/proc/self/status").read_text().splitlines()
print(next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:")))
"""


class TestRefusals:
    def test_more_memory_than_allowed(self, tmp_path: Path) -> None:
        write(tmp_path, space(*["Neg"] * 500))

        with pytest.raises(TraceTooLargeError):
            ta.load(tmp_path, max_memory_bytes=10_000)

    @pytest.mark.slow
    def test_half_the_memory_that_a_report_takes_at_its_peak(self, tmp_path: Path) -> None:
        folder = tmp_path / "plugins" / "profile" / "run"
        folder.mkdir(parents=True)
        (folder / "host.xplane.pb").write_bytes(synthetic_trace(60))
        words = [sys.executable, "-c", _PEAK, str(tmp_path), str(tmp_path / "page.html")]
        peaks = []
        for _ in range(2):  # a run that compiles takes more
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            peaks.append(int(done.stdout.split()[-1]))
        peak = min(peaks)

        with pytest.raises(TraceTooLargeError, match="--max-memory"):
            ta.load(tmp_path, max_memory_bytes=peak // 2)
        ta.load(tmp_path, max_memory_bytes=2 * peak)


def beyond_reason(duration: int, *others: Event) -> Any:  # noqa: ANN401  # a protobuf message
    """Eight events whose durations, distances, or both are impossible, and others."""
    return xspace(
        host(
            line("python")(
                event("train", ps(0, duration), step_num=1),
                event("EagerLocalExecute: Neg", ps(9, duration)),
                event("a:Abs", ps(2**62, duration), display_name="Abs"),
                event("b:Abs", ps(-(2**63), duration), display_name="Abs"),
                *others,
            ),
            line("late", at_ns=2**63 - 1)(op("c", "Abs", us(0, 1))),
        ),
        gpu(0)(
            stream(7)(
                event("k", ps(5, duration), tf_op=ref("b:Abs")),
                event("k", ps(2**62, duration)),
                event("MemcpyH2D", ps(5, duration)),
            )
        ),
    )


@pytest.mark.parametrize("duration", [-(2**63), 2**63 - 1])
class TestTimesBeyondReason:
    def test_events_with_other_times_give_a_report(self, tmp_path: Path, duration: int) -> None:
        write(tmp_path, beyond_reason(duration, op("kept", "Neg", us(1, 1))))

        run = ta.load(tmp_path)

        assert problems(run) == []
        assert names(run) == ["kept"]
        assert [h.trace.impossible_events for h in run.hosts] == [8]
        (said,) = (health for health in trace_health(run) if health.id == "impossible_times")
        assert "8 events" in said.message
        dumps(assemble(diagnose(run)))

    def test_a_file_without_another_time_is_named_with_its_loss(
        self, tmp_path: Path, duration: int
    ) -> None:
        write(tmp_path, beyond_reason(duration), host="a")

        with pytest.raises(TraceFormatError) as caught:
            ta.load(tmp_path)
        write(tmp_path, space("Neg"), host="b")
        run = ta.load(tmp_path)

        assert "a.xplane.pb" in str(caught.value)
        assert "8 events" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert names(run) == ["Neg"]
        assert [(f.host, f.reason) for f in run.failures] == [("a", str(caught.value))]


@pytest.mark.parametrize("left", [None, b"no trace"], ids=["missing", "damaged"])
def test_a_capture_without_a_usable_trace_has_all_but_times(
    tmp_path: Path, left: bytes | None
) -> None:
    logs = Path(__file__).parents[1] / "sample_traces" / "recommender" / "logs"
    shutil.copytree(logs, tmp_path / "logs")
    (trace,) = (tmp_path / "logs").rglob("*.xplane.pb")
    trace.unlink() if left is None else trace.write_bytes(left)

    recorded, silent = ta.load(logs), ta.load(tmp_path / "logs")

    assert {*recorded.ops["type"][recorded.ops["role"] == "compute"]} <= {*silent.ops["type"]}
    assert silent.ops["no_event"].eq("no_trace").all()
    causes = [
        {finding.cause for finding in there.findings}
        for there in (diagnose(recorded).on_a_gpu, diagnose(silent).on_a_gpu)
        if there
    ]
    assert causes[0]
    assert causes[0] <= causes[1]  # the program also makes a table, before the trace begins
    assert "file_note" in {each.id for each in trace_health(silent)}

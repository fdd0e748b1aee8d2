"""A run with the capture file of a capture beside its trace: read, joined, and its limits told."""

import gzip
from pathlib import Path
from typing import Any

import pytest

import traceanalyzer as ta
from tests.capture_files import Book, eager_op, node
from tests.tables.reading import rows
from tests.traces import (
    eager,
    event,
    host,
    line,
    step,
    task_environment,
    us,
    write,
    xspace,
)
from traceanalyzer.capture_file import files
from traceanalyzer.capture_file.document import CaptureFile, CaptureNote, Frame, Session
from traceanalyzer.health import trace_health
from traceanalyzer.model import Health, Report
from traceanalyzer.report.assemble import assemble
from traceanalyzer.run import Run
from traceanalyzer.tables.joined import MARKER
from traceanalyzer.trace.xplane import ProfileOptions

LEVEL_3 = ProfileOptions(host_tracer_level=3, device_tracer_level=1, python_tracer_level=0)


def python(*ops: str) -> Any:  # noqa: ANN401  # a word of the language
    return line("python")(
        event(MARKER, us(0), thread=0, index=0),
        step(1, us(1, 900))(eager(name, us(10 + 10 * k, 9)) for k, name in enumerate(ops)),
    )


def book() -> Book:
    made = Book()
    made.thread(0, "MatMul @7", "MatMul @9 /CPU:0")
    return made


def session(trace: str | None = "host.xplane.pb", **more: Any) -> Session:  # noqa: ANN401  # fields
    held: dict[str, Any] = {
        "method": "server",
        "requested": LEVEL_3,
        "start_ns": 10**18,
        "stop_ns": 10**18 + 2_500_000_000,
        "reason": "steps 10 to 20, as asked for",
    }
    return Session(trace=trace, **held | more)


class Captured:
    """Writes traces with a capture file beside them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.capture_file_file = folder / "plugins/profile/run/host.placement.json.gz"

    def __call__(self, capture_file: CaptureFile | bytes, *planes: Any) -> Run:  # noqa: ANN401  # words
        write(self.folder, xspace(*(planes or (host(python("MatMul", "MatMul")),))))
        if isinstance(capture_file, bytes):
            self.capture_file_file.write_bytes(capture_file)
        else:
            files.write(capture_file, self.capture_file_file)
        return ta.load(self.folder)


@pytest.fixture
def captured(tmp_path: Path) -> Captured:
    return Captured(tmp_path)


def told(run: Run) -> dict[str, Health]:
    return {h.id: h for h in trace_health(run)}


def report(run: Run) -> Report:
    return assemble(ta.diagnose(run))


class TestBelonging:
    def test_a_capture_of_another_time_is_not_believed(self, captured: Captured) -> None:
        planes = (host(python("MatMul", "MatMul")), task_environment(1_700 * 10**15))
        hidden = {"variables": {"CUDA_VISIBLE_DEVICES": "-1"}}
        run = captured(book().capture_file(sessions=(session(),), environment=hidden), *planes)

        assert run.hosts[0].capture_file is None
        assert rows(run.ops, "source_line") == [None]
        found = told(run)["capture_file_foreign"]
        assert found.severity == "warning"
        assert {"2001-09-09", "2023-11-14"} <= {*found.message.split()}
        assert {f.certainty for f in report(run).findings} == {"likely"}

    def test_one_of_its_time_is_whatever_the_trace_is_called(self, captured: Captured) -> None:
        planes = (host(python("MatMul", "MatMul")), task_environment(10**18 + 10**9))
        sessions = (session(start_ns=1, stop_ns=2), session("another-name.xplane.pb"))
        run = captured(book().capture_file(sessions=sessions), *planes)

        assert run.hosts[0].capture_file is not None
        assert run.hosts[0].session == 1

    def test_where_no_time_is_known_the_ops_tell(self, captured: Captured) -> None:
        other = Book()
        other.function("__inference_train_7", node("dense/Relu", "Relu", line=3))
        run = captured(other.capture_file(), host(python("MatMul", "Add", "Mul")))

        assert run.hosts[0].capture_file is None
        assert "ops in the file differ" in told(run)["capture_file_foreign"].message


class TestReading:
    def test_one_that_cannot_be_read_costs_itself_alone(self, captured: Captured) -> None:
        run = captured(gzip.compress(b"{]"))

        assert rows(run.ops, "type", "source_line") == [("MatMul", None)]
        health = told(run)["capture_file_unreadable"]
        assert health.severity == "warning"
        assert "not JSON" in health.message

    def test_of_several_sessions_that_of_the_trace_counts(self, captured: Captured) -> None:
        made = Book()
        made.thread(0, "MatMul @7", "MatMul @7", session=0)
        made.thread(0, "MatMul @107", "MatMul @107", session=1)
        before = session("../earlier/host.xplane.pb")

        run = captured(made.capture_file(sessions=(before, session())))

        assert rows(run.ops, "source_line") == [107]
        assert run.hosts[0].session == 1
        assert "1 more part" in told(run)["capture_window"].message


class TestHealth:
    def test_a_rest_is_said_to_be_what_it_is(self, captured: Captured) -> None:
        made = Book()
        made.thread(0, "Add @1", eager_op("Neg"), "Sub @3")

        run = captured(made.capture_file(), host(python("Add", "Neg", "Foo", "Sub")))

        health = told(run)["unjoined"]
        assert health.severity == "warning"
        shares = ("covers 75.0%", "50.0%")
        assert all(share in health.message for share in shares)

    def test_what_the_capture_noted(self, captured: Captured) -> None:
        notes = (
            CaptureNote(id="eager_off", severity="warning", message="eager ops were not recorded"),
            CaptureNote(id="fork", severity="info", message="two processes were started"),
        )

        health = told(captured(book().capture_file(notes=notes)))

        assert (health["eager_off"].severity, health["fork"].severity) == ("warning", "info")
        assert health["fork"].message == "host: two processes were started"


class TestTheReport:
    def test_shows_lines_as_seen_from_the_program(self, captured: Captured) -> None:
        """And no folder above it, which is its author's."""
        capture_file = book().capture_file(
            environment={"cwd": "/far/away", "script": "project/train.py"},
            frames=tuple(
                Frame(file=f"/far/away/project/{name}", line=n, code="f", is_user=True)
                for n, name in ((7, "train.py"), (9, "lib/model.py"))
            ),
        )
        run = captured(capture_file)
        made = report(run)

        shown = [(r["source_file"], r["source_line"]) for r in made.tables.ops.records()]
        assert sorted(shown) == [("lib/model.py", 9), ("train.py", 7)]
        (finding,) = made.findings
        assert sorted((op.file, op.line) for op in finding.ops) == sorted(shown)
        assert rows(run.ops, "source_file")[0] == "/far/away/project/train.py"

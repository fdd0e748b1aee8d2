"""The folder of a run; which sessions left a trace, and which is reported; why there is no GPU."""

import json
from pathlib import Path
from typing import Any

import pytest

from traceanalyzer.capture_file.document import Json
from traceanalyzer.capture_file.files import path_beside, read
from traceanalyzer.capture_file.journal import Journal
from traceanalyzer.capturing import gathering
from traceanalyzer.capturing.gathering import (
    recorded_sessions,
    reserved_run,
    session_to_report,
)
from traceanalyzer.errors import TraceAnalyzerError


def test_of_two_captures_with_one_name_the_second_is_refused(tmp_path: Path) -> None:
    with reserved_run(tmp_path, "mine") as folder:
        with (
            pytest.raises(TraceAnalyzerError, match="already exists in"),
            reserved_run(tmp_path, "mine"),
        ):
            pass
        assert folder.is_dir()
    assert not [*tmp_path.iterdir()]


def test_captures_of_one_second_get_folders_of_their_own(tmp_path: Path) -> None:
    with reserved_run(tmp_path, None) as first, reserved_run(tmp_path, None) as second:
        assert first != second
        (first / "host.xplane.pb").touch()
    assert first.is_dir()
    assert not second.exists()


OPS, NO_OPS = b"..EagerLocalExecute: MatMul..", b"..nothing but the profiler.."


def session(trace: Path | None, content: bytes = OPS, method: str = "server") -> dict[str, Any]:
    if trace is not None:
        trace.parent.mkdir(exist_ok=True, parents=True)
        trace.write_bytes(content)
    return {
        "trace": trace and str(trace),
        "method": method,
        "start_ns": 10**9,
        "stop_ns": 3 * 10**9,
        "reason": "because",
    }


def test_each_capture_file_names_all_traces_from_its_folder(tmp_path: Path) -> None:
    traces = [tmp_path / "logs" / run / "host.xplane.pb" for run in ("first", "second")]
    records = [{"kind": "session", **session(trace)} for trace in (*traces, None)]
    (tmp_path / "journal.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    assert not [*gathering.write_capture_files(traces, tmp_path)]
    found = read(path_beside(traces[1]))
    assert found is not None
    assert [s.trace for s in found.sessions] == ["../first/host.xplane.pb", "host.xplane.pb", None]


def journal(*sessions: dict[str, Any]) -> Journal:
    found = Journal()
    found.many["session"] += sessions
    return found


def test_a_session_without_a_trace_is_none(tmp_path: Path) -> None:
    gone = session(tmp_path / "gone")
    (tmp_path / "gone").unlink()
    records = [session(None), gone, session(tmp_path / "empty", b"")]
    assert recorded_sessions(journal(*records)) == []
    [found] = recorded_sessions(journal(*records, session(tmp_path / "trace")))
    assert (found.trace, found.duration_s, found.reason) == (tmp_path / "trace", 2.0, "because")


def chosen(*records: dict[str, Any]) -> str | None:
    found = session_to_report(recorded_sessions(journal(*records)))
    return found.trace.name if found else None


def test_our_newest_with_ops_is_reported(tmp_path: Path) -> None:
    first = session(tmp_path / "first")
    second = session(tmp_path / "second")
    idle = session(tmp_path / "idle", NO_OPS)
    scripts = session(tmp_path / "scripts", method="script")
    assert chosen(first, second, idle, scripts) == "second"
    assert chosen(second, first) == "first"
    assert chosen(idle, scripts) == "scripts"
    assert chosen(scripts) == "scripts"
    assert chosen(idle) == "idle"
    assert chosen() is None


CPU, GPU = {"name": "/physical_device:CPU:0", "type": "CPU"}, {"type": "GPU"}


@pytest.mark.parametrize(
    ("physical", "of_session", "is_so"),
    [
        (None, None, False),
        ([CPU], None, True),
        ([CPU, GPU], None, False),
        (None, ["CPU"], True),
        (None, ["CPU", "GPU"], False),
    ],
)
def test_no_gpu_is_only_stated_where_devices_were_listed(
    physical: list[Json] | None, of_session: list[Json] | None, *, is_so: bool
) -> None:
    journal = Journal()
    if physical:
        journal.last["devices"] = {"physical": physical}
    if of_session:
        journal.many["session_config"].append({"device_types": of_session})
    assert gathering.saw_no_gpu(journal) == is_so

"""Which sessions left a trace, and which of them is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traceanalyzer.capture_file.journal import Journal
from traceanalyzer.capturing.gathering import recorded_sessions, session_to_report

if TYPE_CHECKING:
    from pathlib import Path

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

from __future__ import annotations

import pytest

from traceanalyzer.errors import TraceFormatError, TraceTooLargeError
from traceanalyzer.trace import builder as module
from traceanalyzer.trace.builder import TraceBuilder
from traceanalyzer.trace.memory_need import report_bytes


def test_long_strings_and_half_of_a_surrogate_pair() -> None:
    builder = TraceBuilder("x")
    plane = builder.plane("p")
    plane.event(plane.line(1), "x" * 100_000, 0, 1, stats={"s": "\ud800"})
    (built,) = builder.build().planes
    assert built.names[0] == "x" * 100_000
    assert built.strings("s").to_list() == ["?"]


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_PLANES", 2)
    monkeypatch.setattr(module, "MAX_LINES", 2)
    builder = TraceBuilder("x", max_bytes=report_bytes(10_000))
    plane = builder.plane("p")
    builder.plane("q")
    with pytest.raises(TraceFormatError, match="processes"):
        builder.plane("r")
    line = plane.line(1)
    plane.line(2)
    with pytest.raises(TraceFormatError, match="threads"):
        plane.line(3)
    while builder.events < 10:
        plane.event(line, "e", builder.events, 1, stats={"s": str(builder.events)})
    with pytest.raises(TraceTooLargeError, match="--max-memory"):
        plane.event(line, "e", 0, 1, stats={f"k{i}": f"v{i}" for i in range(20)})

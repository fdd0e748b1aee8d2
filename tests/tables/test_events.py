"""Every event, as a table."""

from __future__ import annotations

from tests.tables.reading import rows
from tests.traces import (
    decode,
    event,
    gpu,
    host,
    kernel,
    line,
    old_ops,
    stream,
    task_environment,
    us,
    xspace,
)
from traceanalyzer.tables.events import event_rows

US = 10**6


def test_every_event_of_every_plane_is_listed_derived_lines_included() -> None:
    trace = decode(
        xspace(
            host(line("python", id=-4, at_ns=7)(event("a", us(0, 5))(event("b", us(1, 2))))),
            task_environment(),
            gpu(0)(stream(13, "Compute")(kernel("k", us(3, 1))), old_ops(("x:X", us(3, 1)))),
        )
    )

    table = event_rows("h", trace)

    assert rows(table, "host", "plane", "line", "name", "start_ps", "duration_ps") == [
        ("h", "/host:CPU", "python", "a", 7000, 5 * US),
        ("h", "/host:CPU", "python", "b", 7000 + US, 2 * US),
        ("h", "/device:GPU:0", "Stream #13(Compute)", "k", 3 * US, US),
        ("h", "/device:GPU:0", "TensorFlow Ops", "x:X", 3 * US, US),
    ]
    assert table["line_id"].tolist() == [-4, -4, 13, -559038734]

"""Why did this TensorFlow op run on the CPU, what does it cost, and what do I change?

import traceanalyzer as ta

run = ta.load("logs/")
run.ops, run.transfers, run.transfer_graph
ta.write_report(ta.diagnose(run), "report.html")
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from traceanalyzer.errors import TraceAnalyzerError, TraceFormatError, TraceNotFoundError
from traceanalyzer.version import VERSION as __version__  # noqa: N811

if TYPE_CHECKING:
    from traceanalyzer.capturing.in_code import Capture, capture, capture_callback
    from traceanalyzer.check.assertion import assert_placement
    from traceanalyzer.diagnosis import Diagnosis, diagnose
    from traceanalyzer.report.document import write_report
    from traceanalyzer.run import Run, load, runs

__all__ = [
    "Capture",
    "Diagnosis",
    "Run",
    "TraceAnalyzerError",
    "TraceFormatError",
    "TraceNotFoundError",
    "__version__",
    "assert_placement",
    "capture",
    "capture_callback",
    "diagnose",
    "load",
    "runs",
    "write_report",
]

logging.getLogger("traceanalyzer").addHandler(logging.NullHandler())

# Loaded when they are first used: pandas takes half a second.
_HOMES = {
    "capturing.in_code": ("Capture", "capture", "capture_callback"),
    "check.assertion": ("assert_placement",),
    "diagnosis": ("Diagnosis", "diagnose"),
    "report.document": ("write_report",),
    "run": ("Run", "load", "runs"),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{home}"), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted(__all__)

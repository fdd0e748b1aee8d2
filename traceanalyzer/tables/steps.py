"""Steps, from the markers that a program, Keras or the profiler left."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from traceanalyzer.tables.nesting import in_line_order, innermost
from traceanalyzer.tables.text_columns import filled
from traceanalyzer.trace.columns import Strings

if TYPE_CHECKING:
    from traceanalyzer.trace.columns import Plane, Trace

__all__ = ["step_rows"]

_STEPS_LINE: Final = "Steps"
_NUMBER: Final = re.compile(r"\s*\d+$")  # `train 108` is a step of `train`
_COLUMNS: Final = ("step", "name", "start_ps", "duration_ps", "source")


def step_rows(host_name: str, trace: Trace) -> pd.DataFrame:
    """Build one host's rows of the step table.

    A marker is an event with the stat `step_num` (`tf.profiler.experimental.Trace`, Keras, JAX);
    of nested ones the outermost. Where there is none, the lines `Steps` that older profilers added:
    one a device, so that a step spans what all devices did in it. A step's name says of what kind
    it is: the marker's own name, or what Keras' `TraceContext` says it ran (`train`, `test`).
    """
    marked = [_marked(plane) for plane in trace.planes if plane.has_stat("step_num")]
    table = _join(marked) if any(len(part) for part in marked) else _over_devices(trace)
    table["host"] = host_name
    return table.sort_values("start_ps", kind="stable", ignore_index=True)


def _join(parts: list[pd.DataFrame]) -> pd.DataFrame:
    found = [part for part in parts if len(part)]
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=list(_COLUMNS))


def _over_devices(trace: Trace) -> pd.DataFrame:
    table = _join([_steps_line(plane) for plane in trace.planes])
    if table.empty:
        return table
    table["end_ps"] = table["start_ps"] + table["duration_ps"]
    steps = (
        table.groupby(["step", "name"], sort=True)
        .agg(start_ps=("start_ps", "min"), end_ps=("end_ps", "max"))
        .reset_index()
    )
    steps["duration_ps"] = steps["end_ps"] - steps["start_ps"]
    steps["source"] = "line Steps"
    return steps[list(_COLUMNS)]


def _marked(plane: Plane) -> pd.DataFrame:
    number = plane.integers("step_num")
    outer = innermost(plane, in_line_order(plane), number.present)
    event = np.flatnonzero(number.present & (outer < 0))
    names = Strings(plane.name_of, plane.names)
    return pd.DataFrame(
        {
            "step": number.values[event],
            "name": filled(plane.strings("graph_type").take(event), names.take(event)).to_list(),
            "start_ps": plane.start_ps[event],
            "duration_ps": plane.duration_ps[event],
            "source": "step_num",
        }
    )


def _steps_line(plane: Plane) -> pd.DataFrame:
    lines = [k for k, name in enumerate(plane.lines.name) if name == _STEPS_LINE]
    event = np.flatnonzero(np.isin(plane.line_of, lines))
    label = plane.strings("step_name").take(event).to_list()
    own = Strings(plane.name_of, plane.names).take(event).to_list()
    return pd.DataFrame(
        {
            "step": [
                int(text) if text and text.isdecimal() and len(text) < 19 else k  # noqa: PLR2004
                for k, text in enumerate(own)
            ],
            "name": [
                _NUMBER.sub("", told or name or "") or "step"
                for told, name in zip(label, own, strict=True)
            ],
            "start_ps": plane.start_ps[event],
            "duration_ps": plane.duration_ps[event],
        }
    )

"""Every event of a trace as a table, for those who look for what the other tables leave out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from traceanalyzer.tables.text_columns import categorical, constant
from traceanalyzer.trace.columns import Strings

if TYPE_CHECKING:
    from traceanalyzer.trace.columns import Trace


def event_rows(host_name: str, trace: Trace) -> pd.DataFrame:
    """List the events of all planes, derived lines included.

    Returns:
        One row an event: `host`, `plane`, `line`, `line_id`, `name`, `start_ps`, `duration_ps`.
    """
    parts = []
    for plane in trace.planes:
        n = len(plane)
        parts.append(
            pd.DataFrame(
                {
                    "host": categorical(constant(host_name, n)),
                    "plane": categorical(constant(plane.name, n)),
                    "line": categorical(Strings(plane.line_of, plane.lines.name)),
                    "line_id": plane.lines.id[plane.line_of] if n else np.empty(0, np.int64),
                    "name": categorical(Strings(plane.name_of, plane.names)),
                    "start_ps": plane.start_ps,
                    "duration_ps": plane.duration_ps,
                }
            )
        )
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    texts = [c for c in ("host", "plane", "line", "name") if c in table]
    return table.astype(dict.fromkeys(texts, "category"))

"""Converts a comparison to JSON."""

import json
from dataclasses import asdict
from typing import Any, Final

from traceanalyzer.compare.differences import Comparison
from traceanalyzer.model import Report

SCHEMA_VERSION: Final = 1


def as_json(comparison: Comparison, base: Report, new: Report) -> str:
    """Return a comparison as JSON; unknown values are null."""
    change = comparison.step_time
    data: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "base": base.run.name,
        "new": new.run.name,
        "shared_share": round(comparison.shared, 6),
        "has_enough_in_common": comparison.has_enough_in_common,
        "step_time": None
        if change is None
        else {
            "base_us": round(change.base_us, 3),
            "new_us": round(change.new_us, 3),
            "change_low_share": round(change.low, 6),
            "change_high_share": round(change.high, 6),
            "is_seen": change.is_seen,
        },
        "differences": [asdict(difference) for difference in comparison.differences],
    }
    return json.dumps(data, indent=2) + "\n"

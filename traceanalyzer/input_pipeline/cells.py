"""Cells of tables, which may be unknown."""

from __future__ import annotations

from typing import Any

import pandas as pd

__all__ = ["is_positive"]


def is_positive(value: Any) -> bool:  # noqa: ANN401 - a cell of a table
    """Tell whether a figure or flag is known, and above 0 or set."""
    return not pd.isna(value) and value > 0

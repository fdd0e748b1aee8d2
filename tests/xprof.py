"""What XProf says of a trace, for tests that compare; without XProf they are skipped."""

import json
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pytest

__all__ = ["table", "tool_data"]


def tool_data(file: Path, tool: str, folder: Path) -> Any:  # noqa: ANN401  # JSON
    """What one of XProf's tools says of a trace.

    Args:
        file: The trace.
        tool: Name of the tool, `framework_op_stats` for one.
        folder: Where a copy may lie: XProf writes beside the file, and what it finds there it
            takes for its own, whichever trace it was of. Each call therefore gets a folder.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # XProf's own
        converter = pytest.importorskip(
            "xprof.convert.raw_to_tool_data", reason="XProf is not installed"
        )
    copied = shutil.copy(file, tempfile.mkdtemp(dir=folder))
    content, _ = converter.xspace_to_tool_data([str(copied)], tool, {})
    return json.loads(content)


def table(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a table that a tool wrote for Google Charts, by name of the column."""
    columns = [column["id"] for column in data["cols"]]
    return [
        {name: cell["v"] for name, cell in zip(columns, row["c"], strict=True)}
        for row in data["rows"]
    ]

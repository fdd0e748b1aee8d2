"""Writes the tables of a run as Parquet and CSV files."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pandas as pd
import pyarrow as pa
from pyarrow import csv, parquet

from traceanalyzer.run import Run
from traceanalyzer.tables.schema import SCHEMAS
from traceanalyzer.whole_file import naming


def write_tables(run: Run, folder: Path, *, with_events: bool = False) -> Path:
    """Write the tables of a run into a folder named after it. If one fails, write none.

    Args:
        run: The run.
        folder: The parent of the run's folder; created if it does not exist.
        with_events: Whether to also write every event, as Parquet.

    Returns:
        The run's folder. Existing files of the same names are replaced.

    Raises:
        OSError: The files cannot be written; the error names the run's folder.
    """
    target = folder / _folder_name(run.name)
    with naming(target):
        _write_all(run, target, with_events=with_events)
    return target


def _write_all(run: Run, target: Path, *, with_events: bool) -> None:
    folder = target.parent
    existed = folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder, prefix=".tables."))
    try:
        for schema in SCHEMAS:
            _write(getattr(run, schema.name), temporary / schema.name, with_csv=True)
        if with_events:
            _write(run.events, temporary / "events", with_csv=False)
        target.mkdir(exist_ok=True)
        for file in sorted(temporary.iterdir()):
            file.replace(target / file.name)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        if not existed and not any(folder.iterdir()):
            folder.rmdir()


def _folder_name(run_name: str) -> str:
    """Return a safe, unique folder name for a run: `train%2Fa` for `train/a`."""
    quoted = quote(run_name, safe=" ")
    return quoted if quoted.strip(". ") else f"run{quoted}"


def _write(table: pd.DataFrame, stem: Path, *, with_csv: bool) -> None:
    columns = pa.Table.from_pandas(table, preserve_index=False)
    columns = _map_columns(columns, _as_text_where_empty)
    parquet.write_table(columns, stem.with_suffix(".parquet"), compression="zstd")
    if with_csv:
        csv.write_csv(_map_columns(columns, _decoded), stem.with_suffix(".csv"))


def _map_columns(
    table: pa.Table, function: Callable[[pa.ChunkedArray], pa.ChunkedArray]
) -> pa.Table:
    columns = [function(column) for column in table.columns]
    # The metadata tells pandas its own types, such as integers that can be null.
    mapped = pa.table(dict(zip(table.column_names, columns, strict=True)))
    return mapped.replace_schema_metadata(table.schema.metadata)


def _as_text_where_empty(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Cast an all-null column to text, because only text columns can be entirely null."""
    if pa.types.is_null(column.type):
        return column.cast(pa.string())
    if pa.types.is_dictionary(column.type) and pa.types.is_null(column.type.value_type):
        return pa.chunked_array([pa.nulls(len(column), pa.string())]).dictionary_encode()
    return column


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column

"""Defines the names and dtypes of the tables' columns. `schema.toml` describes each column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd

from traceanalyzer.data_files import toml


@dataclass(frozen=True)
class Schema:
    """A table's name and its columns, in order."""

    name: str
    columns: Mapping[str, str]  #: their dtypes, as in `schema.toml`

    def frame(self, parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
        """Join the rows of all hosts into one table with the schema's dtypes."""
        parts = parts or [pd.DataFrame(columns=list(self.columns), dtype=object)]
        columns = {name: [part[name] for part in parts] for name in self.columns}
        table = pd.DataFrame({name: _join(columns[name], t) for name, t in self.columns.items()})
        return table.reset_index(drop=True)


def _join(columns: list[pd.Series], dtype: str) -> pd.Series | pd.Categorical:
    if dtype != "text":
        joined = columns[0] if len(columns) == 1 else pd.concat(columns, ignore_index=True)
        return joined.astype(pd.api.types.pandas_dtype(dtype))
    parts = [_coded(column) for column in columns]
    return parts[0] if len(parts) == 1 else pd.api.types.union_categoricals(parts)


def _coded(column: pd.Series) -> pd.Categorical:
    is_coded = isinstance(column.dtype, pd.CategoricalDtype)
    found = column.array if is_coded else pd.Categorical(column.astype(object))
    if found.categories.dtype == object:
        return found
    # A fixed dtype for the categories, whatever pandas infers, so that hosts can be joined.
    return found.rename_categories(pd.Index(found.categories, dtype=object))


_TABLES: Final[dict[str, dict[str, list[str]]]] = toml("tables/schema.toml")
SCHEMAS: Final = tuple(
    Schema(name, {column: dtype for column, (dtype, _) in columns.items()})
    for name, columns in _TABLES.items()
)
OPS, KERNELS, TRANSFERS, ALLOCATIONS, STEPS, STAGES = SCHEMAS

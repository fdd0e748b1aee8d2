"""Reads tables off hand-written traces, for tests."""

from typing import Any

import pandas as pd

from tests.traces import decode, host, xspace
from traceanalyzer.run import Run
from traceanalyzer.tables.host_tables import HostTables, host_tables
from traceanalyzer.tables.schema import SCHEMAS
from traceanalyzer.trace.columns import Plane

HOST = "worker-0"


def host_plane(*lines: Any) -> Plane:  # noqa: ANN401  # words of the language nest freely
    """The decoded plane of a host with these threads."""
    (plane,) = decode(xspace(host(*lines))).planes
    return plane


def tables_of(*planes: Any) -> HostTables:  # noqa: ANN401  # as above
    """All tables of one host whose trace holds these planes."""
    return host_tables(HOST, 0, decode(xspace(*planes)))


def rows(table: pd.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """The rows of a table as plain values, None for null; a lone column's as they are."""
    plain = table[list(columns)].astype(object)
    plain = plain.where(plain.notna(), None)
    if len(columns) == 1:
        return plain[columns[0]].tolist()
    return [tuple(row) for row in plain.itertuples(index=False)]


def placed(tables: HostTables) -> dict[str, tuple[str, str, str]]:
    """Placement, certainty and witness of each op, by `function/name:type`; no two alike."""
    found = {}
    for function, name, kind, *placement in rows(
        tables.ops,
        "function",
        "name",
        "type",
        "placement",
        "placement_certainty",
        "placement_source",
    ):
        key = f"{name}:{kind}" if function is None else f"{function} {name}:{kind}"
        assert key not in found, f"two rows are called {key}"
        found[key] = tuple(placement)
    return found


def problems(tables: Run | HostTables) -> list[str]:
    """How the tables differ from their schemas; empty when they conform."""
    found = []
    for schema in SCHEMAS:
        table = getattr(tables, schema.name)
        table = schema.frame([table]) if isinstance(tables, HostTables) else table
        dtypes = {name: str(dtype) for name, dtype in table.dtypes.items()}
        declared = {n: "category" if t == "text" else t for n, t in schema.columns.items()}
        if [*dtypes.items()] != [*declared.items()]:
            found.append(f"{schema.name}: {dtypes}, expected {declared}")
    return found

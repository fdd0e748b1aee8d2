"""The knowledge in `data/*.toml`: each entry has a source and can be read."""

import tomllib
from pathlib import Path

import pytest

import traceanalyzer.causes
import traceanalyzer.placement
from traceanalyzer.causes.library_cpu_placement import LIBRARY_CODE
from traceanalyzer.placement import kernel_tables

FILES = [
    file
    for package in (traceanalyzer.causes, traceanalyzer.placement)
    for file in sorted((Path(next(iter(package.__path__))) / "data").glob("*.toml"))
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_entry_has_a_source(file: Path) -> None:
    tables = tomllib.loads(file.read_text(encoding="utf-8")).values()

    for table in tables:
        for entry in table if isinstance(table, list) else [table]:
            assert entry["source"].strip(), entry


def test_names_of_library_code_are_unique_and_known_to_name_scopes() -> None:
    names = [code.id for code in LIBRARY_CODE]

    assert len({*names}) == len(names)
    scopes = tomllib.loads(kernel_tables.read("library_scopes.toml"))["scope"]
    assert {scope["habit"] for scope in scopes} <= {*names, "embedding"}
    assert LIBRARY_CODE[-1].id == "other"
    assert all(code.files for code in LIBRARY_CODE[:-1])

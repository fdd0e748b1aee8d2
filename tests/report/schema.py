"""The JSON schema of report.json, generated from the records: `python -m tests.report.schema`."""

import json
from pathlib import Path
from typing import Any

import msgspec

from traceanalyzer import report
from traceanalyzer.model import CaptureFileWhere, Report, SourceWhere, TraceWhere, Where

FILE = Path(report.__path__[0], "schema.json")
WHERES = (TraceWhere, SourceWhere, CaptureFileWhere)


def text() -> str:
    """Return the schema with a line for each record."""
    _, defs = msgspec.json.schema_components(
        [Report, *WHERES], schema_hook=_where, ref_template="#/$defs/{name}"
    )
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(record)}" for name, record in defs.items())
    return (
        '{"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": "#/$defs/Report",\n'
        f'"$defs": {{\n{lines}\n}}}}\n'
    )


def _where(kind: type) -> dict[str, Any]:
    assert kind is Where
    return {"anyOf": [{"$ref": f"#/$defs/{record.__name__}"} for record in WHERES]}


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")

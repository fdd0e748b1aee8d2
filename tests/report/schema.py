"""The JSON schema of report.json, generated from the records: `python -m tests.report.schema`."""

import json
from pathlib import Path
from typing import Any

import msgspec

from traceanalyzer import report
from traceanalyzer.model import CaptureFileWhere, Report, SourceWhere, TraceWhere, Where

FILE = Path(report.__path__[0], "schema.json")
WHERES = {"plane": TraceWhere, "file": SourceWhere, "capture_file": CaptureFileWhere}


def text() -> str:
    """Return the schema with a line for each record."""
    _, defs = msgspec.json.schema_components(
        [Report, *WHERES.values()], schema_hook=_where, ref_template="#/$defs/{name}"
    )
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(record)}" for name, record in defs.items())
    return (
        '{"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": "#/$defs/Report",\n'
        f'"$defs": {{\n{lines}\n}}}}\n'
    )


def loads(document: str) -> Report:
    """Read a report back."""
    return msgspec.convert(json.loads(document), Report, dec_hook=_read_where)


def _read_where(kind: type, value: Any) -> object:  # noqa: ANN401 - JSON
    assert kind is Where
    record = next(record for key, record in WHERES.items() if key in value)
    return msgspec.convert(value, record)


def _where(kind: type) -> dict[str, Any]:
    assert kind is Where
    return {"anyOf": [{"$ref": f"#/$defs/{record.__name__}"} for record in WHERES.values()]}


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")

"""Writes the TypeScript types of the blocks that the page's script draws, from the Python types.

Run as `python -m tests.report.page.block_types`; a test fails when the file is stale.
"""

from pathlib import Path
from typing import Any

import msgspec

import traceanalyzer
from traceanalyzer.model.blocks import BigTable, Chart, Flows, Icicle, Timeline

FILE = Path(traceanalyzer.__file__).parent / "report" / "web" / "src" / "blocks.ts"
_DRAWN = (BigTable, Chart, Flows, Icicle, Timeline)
_PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}


def types() -> str:
    """Return the module."""
    _, schemas = msgspec.json.schema_components(_DRAWN)
    lines = [
        "// Generated from traceanalyzer/model/blocks.py: python -m tests.report.page.block_types"
    ]
    for name, schema in sorted(schemas.items()):
        lines += ["", f"export interface {name} {{"]
        required = schema.get("required", [])
        for key, value in schema["properties"].items():
            mark = "" if key in required else "?"
            lines.append(f"  {key}{mark}: {_type(value)};")
        lines.append("}")
    return "\n".join(lines) + "\n"


def _type(schema: dict[str, Any]) -> str:  # noqa: PLR0911 - by kind of schema
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[-1])
    if "enum" in schema:
        return " | ".join("null" if v is None else f'"{v}"' for v in schema["enum"])
    if "const" in schema:
        return f'"{schema["const"]}"'
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    kind = schema.get("type")
    if kind == "null":
        return "null"
    if kind == "array":
        if "prefixItems" in schema:
            return f"[{', '.join(map(_type, schema['prefixItems']))}]"
        inner = _type(schema["items"])
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    return _PLAIN[str(kind)]


if __name__ == "__main__":
    FILE.write_text(types(), encoding="utf-8")

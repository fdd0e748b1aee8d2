"""The example page with hostile texts."""

from dataclasses import fields, is_dataclass, replace
from typing import Any, Final

import msgspec

from tests.report.bad_input import HOSTILE
from tests.report.example_explore import packed_ops, timeline
from tests.report.example_page import example_page
from traceanalyzer.model import PackedTable
from traceanalyzer.model.blocks import Page

_ODD: Final = (
    HOSTILE,
    '</script><script>alert(1)</script><img src=x onerror="alert(2)">',
    "\u202eevil\u2066 \u200b\x00\x1b[31m",
    "two\nlines\u2028three",
    "n" * 5_000,
    "scope/" * 900,
    "\"quoted' `ticks` & &amp; <b>bold</b>",
    "=1+1",
    "half \udc80 a pair",
)
_KEPT: Final = {
    "to",
    "id",
    "ids",
    "op_id",
    "kind",
    "unit",
    "device",
    "certainty",
    "tone",
    "style",
    "key",
    "data",
    "name",
    "x_unit",
    "y_unit",
    "opens",
    "inline",
    "block",
}


def hostile_page() -> Page:
    """Return the example page with each of its texts exchanged for a hostile one."""
    place = 0

    def exchanged(value: Any, field: str = "") -> Any:  # noqa: ANN401, PLR0911 - by type
        nonlocal place
        if isinstance(value, str):
            if field in _KEPT or not value:
                return value
            place += 1
            return _ODD[place % len(_ODD)]
        if isinstance(value, tuple):
            if field == "measures":
                return tuple((exchanged(name), unit) for name, unit in value)
            return tuple(exchanged(part, field) for part in value)
        if isinstance(value, PackedTable):
            return value
        if isinstance(value, msgspec.Struct):
            changes = {
                name: exchanged(getattr(value, name), name) for name in value.__struct_fields__
            }
            return msgspec.structs.replace(value, **changes)
        if is_dataclass(value) and not isinstance(value, type):
            return replace(
                value, **{f.name: exchanged(getattr(value, f.name), f.name) for f in fields(value)}
            )
        if isinstance(value, dict):
            return {key: exchanged(part) for key, part in value.items()}
        return value

    page: Page = exchanged(example_page(packed_ops(odd=_ODD), timeline(names=_ODD)))
    return page

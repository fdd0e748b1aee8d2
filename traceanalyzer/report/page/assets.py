"""The page's style and scripts, and the policy under which a browser runs these and no others."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import Final

from traceanalyzer.report.page import vendored

_PACKAGE: Final = "traceanalyzer.report.page"
# Later rules win over earlier ones of the same weight: width and paper have the last word.
_STYLES: Final = (
    "base.css",
    "sheet.css",
    "contents.css",
    "marks.css",
    "tables.css",
    "verdict.css",
    "findings.css",
    "notes.css",
    "copies.css",
    "time.css",
    "timeline.css",
    "method.css",
    "tools.css",
    "in_full.css",
    "ops.css",
    "width.css",
    "print.css",
)
# One scope holds them all: what a file names, those after it may use.
_SCRIPTS: Final = (
    "page.js",
    "words.js",
    "packed.js",
    "state.js",
    "keys.js",
    "theme.js",
    "in_full.js",
    "contents.js",
    "copies.js",
    "notes.js",
    "copying.js",
    "paper.js",
    "charts.js",
    "scopes.js",
    "query.js",
    "ops_data.js",
    "ops_grid.js",
    "ops_table.js",
    "timeline_data.js",
    "timeline_drawing.js",
    "timeline_place.js",
    "timeline.js",
    "start.js",
)


@cache
def style() -> str:
    """Return the page's style sheet: those of libraries first, so that ours win."""
    return "\n".join((vendored.styles(), *(_text("styles", name) for name in _STYLES)))


@cache
def early_script() -> str:
    """Return the script that runs before the first paint: remembered choices must not flash."""
    return _text("scripts", "early.js")


@cache
def script() -> str:
    """Return the page's script: all files in one scope of their own."""
    own = (_text("scripts", name) for name in _SCRIPTS)
    body = "\n".join((vendored.libraries(), *own))
    return f'(() => {{\n"use strict";\n{body}\n}})();\n'


@cache
def content_security_policy() -> str:
    """Return the policy under which the page runs its own style and scripts and loads nothing."""
    scripts = " ".join(map(_source, (early_script(), script())))
    return "; ".join(
        (
            "default-src 'none'",
            f"style-src {_source(style())}",
            f"script-src {scripts}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _source(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    return f"'sha256-{digest}'"


def _text(folder: str, name: str) -> str:
    return resources.files(_PACKAGE).joinpath(folder, name).read_text(encoding="utf-8")

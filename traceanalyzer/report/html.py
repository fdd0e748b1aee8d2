"""Renders the report as one self-contained HTML file that loads nothing.

Jinja renders all blocks that can be read without scripts. The page's script draws the other blocks,
the figures, from JSON in an inert script element. The Content Security Policy allows only the
page's own style and scripts, which it lists by hash.
"""

import base64
import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache, partial
from importlib import resources
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined, Undefined
from markupsafe import Markup

from traceanalyzer.model import blocks
from traceanalyzer.model.blocks import Bar, Block, Cell, Page
from traceanalyzer.report import text
from traceanalyzer.report.text_output import is_figure

LARGEST_BYTES: Final = 5_000_000
_PACKAGE: Final = "traceanalyzer.report"
_PIECES: Final = re.compile(r".+?(?:/+|::|\Z)", re.DOTALL)
_NAME_CHARACTERS: Final = 240  # of a name; its title or drawer has the full name
_TITLE_CHARACTERS: Final = 2_000
_SCALE: Final = 2_000  # steps of widths in bars
_BY_PLACEMENT: Final = ("transfer", "cpu_op", "input", "on_cpu")


def render_page(page: Page, markdown: Mapping[str, str] | None = None) -> str:
    """Return the page as HTML of at most `LARGEST_BYTES`, trimmed if necessary.

    `markdown` maps card ids, and "" for the whole page, to the texts that the copy buttons copy.
    """
    rendered = b""
    for shown in smaller(page):
        sheet = _Sheet()
        if shown.details:
            sheet.details(shown.details)
        if markdown:
            sheet.add("markdown", json.dumps(dict(markdown)))
        html = environment().get_template("page.html").render(page=shown, sheet=sheet)
        rendered = html.encode("utf-8", "replace")
        if len(rendered) <= LARGEST_BYTES:
            break
    return rendered.decode("utf-8")


class _Sheet:
    """The style rules and script data of a page, collected while it is rendered."""

    def __init__(self) -> None:
        self.data: dict[str, Markup] = {}
        self._rules: dict[str, str] = {}

    def width(self, part: float, whole: float, name: str = "width") -> str:
        """Return a CSS class that sets the width (or `left`) to `part / whole`.

        A class is needed because the Content Security Policy forbids style attributes.
        """
        steps = round(_SCALE * min(1.0, max(0.0, part / whole))) if whole else 0
        self._rules[f"{name[0]}{steps}"] = f"{name}:{100 * steps / _SCALE:g}%"
        return f"{name[0]}{steps}"

    def figure(self, block: Block) -> str:
        return self.add(f"data-{len(self.data)}", json.dumps(msgspec.to_builtins(block)))

    def add(self, name: str, data: str) -> str:
        """Store JSON for the script, escaped so that no text can end the script element."""
        self.data[name] = Markup(data.replace("<", "\\u003c"))  # noqa: S704
        return name

    def details(self, of_ops: Mapping[str, tuple[Block, ...]]) -> None:
        render = environment().get_template("blocks.html").module.__dict__["blocks"]
        rendered = {op_id: str(render(shown, self)).strip() for op_id, shown in of_ops.items()}
        packed = zlib.compress(json.dumps(rendered).encode(), 7)
        self.add("details", json.dumps(base64.b64encode(packed).decode()))

    def style(self) -> Markup:
        """Return the style sheet. Call this last, once all other parts are rendered."""
        rules = "".join(f".{name}{{{rule}}}" for name, rule in sorted(self._rules.items()))
        return Markup(f"{_static('page.css')}{rules}")  # noqa: S704 - our own text

    def policy(self) -> str:
        """Return the Content Security Policy: load nothing, and run only the page's own scripts."""
        scripts = " ".join(_hash(_static(name)) for name in ("early.js", "page.js"))
        return (
            f"default-src 'none'; style-src {_hash(self.style())}; script-src {scripts}; "
            "base-uri 'none'; form-action 'none'"
        )


@cache
def environment() -> Environment:
    """Return the Jinja environment of the page's templates."""
    made = Environment(
        loader=PackageLoader(_PACKAGE, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        # A URL cannot contain half a surrogate pair.
        address=lambda target: quote(target.encode("utf-8", "replace"), safe="-_.:~"),
        # A line can break after slashes and `::`.
        breakable=lambda name: _PIECES.findall(text.cut(name, _NAME_CHARACTERS)) or [name],
        code_line=lambda line: text.cut(line.expandtabs(4).rstrip("\r\n"), _TITLE_CHARACTERS),
        cut=text.cut,
        is_cut=lambda name: len(name) > _NAME_CHARACTERS,
        name=partial(text.cut, length=_TITLE_CHARACTERS),
        tag=_tag,
    )
    made.globals.update(
        bracket=_bracket,
        early_script=Markup(_static("early.js")),  # noqa: S704 - our own text
        is_number=is_figure,
        line_break=Markup("&#10;"),
        licences=json.loads(_static("licences.json")),
        quantity=text.figure,
        row_link_column=_row_link_column,
        script=Markup(_static("page.js")),  # noqa: S704 - our own text
    )
    return made


def _shown(value: object) -> object:
    """Return a value as the page shows it, with invisible characters replaced.

    Jinja calls this on each expression before escaping it. Markup is returned unchanged, since its
    text was already replaced. An undefined name is also unchanged, so Jinja raises its own error.
    """
    return value if isinstance(value, (Markup, Undefined)) else text.visible(str(value))


def _tag(part: object) -> str:
    names = {type(None): "none", str: "str", int: "number", float: "number", tuple: "text"}
    return names.get(type(part)) or str(part.__struct_config__.tag)  # type: ignore[attr-defined]


def _bracket(bar: Bar) -> tuple[float, float] | None:
    """Return the start and length of the part of a bar that CPU placement causes."""
    if not bar.by_placement:
        return None
    start = 0.0
    for part in bar.parts:
        if part.kind in _BY_PLACEMENT:
            break
        start += part.value
    return max(0.0, min(start, bar.total - bar.by_placement)), bar.by_placement


def _row_link_column(row: tuple[Cell, ...]) -> int:
    """Return the column for a row's link, the first one whose cell has no link of its own."""
    for column, cell in enumerate(row):
        has_link = isinstance(cell, tuple) and any(isinstance(i, blocks.Link) for i in cell)
        if cell is not None and not has_link:
            return column
    return -1


@cache
def _static(name: str) -> str:
    return resources.files(_PACKAGE).joinpath("static", name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    digest = base64.b64encode(hashlib.sha256(str(content).encode()).digest()).decode("ascii")
    return f"'sha256-{digest}'"


# --- pages that are too large --------------------------------------------------------------------
#
# The large blocks limit their own size. These rules are for very many findings or very long names.

#: Fields with a list of any length.
_LISTS: Final = frozenset({"rows", "items", "lines", "blocks", "sections", "tabs", "ids", "also"})
#: Fields that others refer to: they must stay distinct.
_KEYS: Final = frozenset({"id", "ids", "to", "op_id", "name", "key", "data"})
_TABLES: Final = "traceanalyzer tables PATH -o DIR"
_JSON: Final = "traceanalyzer report PATH --json FILE"
_DROPPED: Final[dict[type, tuple[str, str]]] = {
    blocks.Timeline: ("the timeline", _TABLES),
    blocks.BigTable: ("the table of all ops", _TABLES),
    blocks.Icicle: ("the tree of name scopes", _JSON),
    blocks.Flows: ("the transfer diagram", _TABLES),
    blocks.Chart: ("charts", _JSON),
}


class _Rule(NamedTuple):
    """The limits for trimming a page."""

    entries: int  # of a list
    characters: int  # of a text
    drawers: int = 0  # of ops
    dropped: tuple[type, ...] = tuple(_DROPPED)  # kinds of blocks


_RULES: Final = (
    _Rule(entries=200, characters=1_000, drawers=100, dropped=()),
    _Rule(entries=30, characters=200),
    _Rule(entries=8, characters=100),
)


def smaller(page: Page) -> Iterator[Page]:
    """Yield the page, then progressively smaller versions of it."""
    yield page
    for rule in _RULES:
        left_out: Counter[str] = Counter()
        trimmed: Page = _trimmed(rule, left_out, "", page)
        said = [what if "(`" in what else f"{n:,} {what}" for what, n in left_out.items() if n]
        said += [f"All of it: {_JSON}"] if said else []
        yield msgspec.structs.replace(trimmed, left_out=(*page.left_out, *said))


def _trimmed(rule: _Rule, left_out: Counter[str], name: str, value: Any) -> Any:  # noqa: ANN401
    """Return a field's value, trimmed according to the rule. Count omissions in `left_out`."""
    if isinstance(value, str) and name not in _KEYS and len(value) > rule.characters:
        left_out["middles of long texts"] += 1
        half = rule.characters // 2
        return f"{value[:half]}…{value[-half:]}"
    if isinstance(value, dict):
        kept = list(value.items())[: rule.drawers]
        left_out["details of ops"] += len(value) - len(kept)
        return {op_id: _trimmed(rule, left_out, "blocks", of_op) for op_id, of_op in kept}
    if isinstance(value, tuple):
        entries = value[: rule.entries] if name in _LISTS else value
        if name != "ids":
            left_out["rows and entries"] += len(value) - len(entries)
            inner = "" if name in _LISTS else name
            entries = tuple(_trimmed(rule, left_out, inner, entry) for entry in entries)
        return entries
    if isinstance(value, rule.dropped):
        what, command = _DROPPED[type(value)]
        left_out[f"{what} (`{command}`)"] += 1
        said = f"This page has no room for {what}. To write the data to a file: "
        return blocks.Note(text=(said, blocks.Code(text=command)))
    if isinstance(value, msgspec.Struct):
        fields = {
            f: _trimmed(rule, left_out, f, getattr(value, f)) for f in value.__struct_fields__
        }
        return type(value)(**fields)
    return value

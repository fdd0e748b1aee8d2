"""The Report as one HTML file that loads nothing and can be read for years."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined, Undefined
from markupsafe import Markup

from traceanalyzer.format import duration, share, size
from traceanalyzer.report import grids, text, views
from traceanalyzer.report.page import (
    assets,
    device_copies,
    fitting,
    group_copies,
    icicle,
    input_stages,
    memory_line,
    phase_strip,
    phases,
    round_trip,
    step_strip,
    timeline_data,
    timeline_link,
    timeline_picture,
    vendored,
)

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.model import Report

_PACKAGE = "traceanalyzer.report.page"
_LIMITS = {
    # What is open of a finding; the rest is folded.
    "evidence_open": 4,
    "ops_open": 8,
    "places_open": 3,
    "ops_of_line_shown": 3,
    # Entries within an entry of a list, such as the causes of a finding.
    "listed_within": 8,
    "ruled_out_shown": 24,
    "code_lines_shown": 60,
    "paragraphs_shown": 12,
    "findings_named": 1000,
    "allocators_shown": 10,
    "memory_holders_shown": 15,
}
# Templates see all public names of these modules.
_FOR_TEMPLATES = (
    *(views, grids, device_copies, group_copies, icicle, input_stages, memory_line, phase_strip),
    *(phases, round_trip, step_strip, timeline_link, timeline_picture),
)
_OF_TEMPLATES = (Markup, Undefined)
_PIECES = re.compile(r".+?(?:/+|::|\Z)", re.DOTALL)


def render_page(report: Report) -> str:
    """Return the report as one HTML page.

    The page is complete in itself and readable without scripts: its style and scripts are inlined,
    and its Content Security Policy lets the browser run these and load nothing. It has at most
    `fitting.LARGEST` bytes: what is left out of it, it tells.
    """
    page = ""
    for shown_of_it in fitting.rounds(report):
        page = _rendered(shown_of_it)
        if len(page.encode()) <= fitting.LARGEST:
            break
    return page


def _rendered(page_of: fitting.Shown) -> str:
    page = (
        environment()
        .get_template("page.html")
        .render(
            report=page_of.report,
            has_events=page_of.has_events,
            left_out=page_of.left_out,
        )
    )
    # Python's text may hold lone surrogates where a name was not UTF-8; `shown` has replaced
    # them, and a page that could not be written would be the worst way to learn otherwise.
    return page.encode("utf-8", "replace").decode("utf-8")


def write_page(report: Report, path: Path) -> None:
    """Write the report's page to a file."""
    path.write_text(render_page(report), encoding="utf-8", newline="\n")


def shown(value: object) -> object:
    """Return a value as the page shows it: the one place through which all text passes.

    Jinja calls this on each expression before it escapes it. Markup was made by templates, whose
    own expressions have been here; an undefined name is left to raise its error.
    """
    if isinstance(value, _OF_TEMPLATES):
        return value
    if value is None:
        return text.UNKNOWN
    return text.visible(str(value))


def paragraphs(prose: str) -> list[str]:
    """Return prose as paragraphs, which an empty line sets apart."""
    return [text.one_line(part) for part in prose.split("\n\n") if part.strip()]


@dataclass(frozen=True)
class Span:
    """A stretch of prose, or of code in it."""

    text: str
    is_code: bool


def spans(prose: str) -> list[Span]:
    """Split prose into text and code, which is between two backticks."""
    parts = prose.split("`")
    if len(parts) % 2 == 0:  # a backtick without its fellow is a character like any other
        return [Span(prose, is_code=False)]
    return [Span(part, is_code=bool(i % 2)) for i, part in enumerate(parts) if part]


def code_lines(code: str) -> list[str]:
    """Return the lines of code, to be shown one below the other."""
    return code.expandtabs(4).strip("\r\n").replace("\r\n", "\n").split("\n")


def breakable(name: str) -> list[str]:
    """Return a name in parts between which a line may break: after slashes and `::` within it."""
    return _PIECES.findall(name) or [name]


@cache
def environment() -> Environment:
    """Return the templates' environment: escaping on, unknown names an error."""
    made = Environment(
        loader=PackageLoader(_PACKAGE, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for module in _FOR_TEMPLATES:
        made.globals.update({k: v for k, v in vars(module).items() if not k.startswith("_")})
    made.globals.update(
        # Our own files, not the report's text.
        style=Markup(assets.style()),  # noqa: S704
        early_script=Markup(assets.early_script()),  # noqa: S704
        script=Markup(assets.script()),  # noqa: S704
        content_security_policy=assets.content_security_policy(),
        libraries=vendored.packages(),
        directions=text.DIRECTIONS,
        readers=text.READERS,
        copy_group_rows=group_copies.group_rows,
        devices_apart=phases.DEVICES_APART,
        findings_in_full=views.FINDINGS_IN_FULL,
        rows_shown=grids.ROWS_SHOWN,
        scope_levels=icicle.LEVELS,
        step_data=step_strip.chart_data,
        timeline_finding_data=timeline_data.finding_table,
        timeline_hatches=timeline_picture.HATCHES,
        timeline_height=timeline_picture.kind_height,
        timeline_kinds=timeline_data.KIND_WORDS,
        timeline_labels=timeline_data.finding_names,
        timeline_lane_data=timeline_data.lane_table,
        **_LIMITS,
    )
    made.filters.update(
        breakable=breakable,
        code_lines=code_lines,
        counted="{:,}".format,
        cut=text.cut,
        cut_long=text.cut_long,
        duration=duration,
        gap_words=timeline_data.gap_words,
        host_time=views.host_time,
        kind_word=step_strip.kind_word,
        paragraphs=paragraphs,
        part=share,
        phase_meaning=phases.phase_meaning,
        phase_name=phases.phase_name,
        size=size,
        stacked=phases.stacked,
        sentence=text.sentence,
        spans=spans,
        words=views.cause_title,
    )
    return made

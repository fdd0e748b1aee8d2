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
    timeline_picture,
    vendored,
)
from traceanalyzer.report.page.input_stages import stage_pipelines
from traceanalyzer.report.page.memory_line import memory_data, memory_line, memory_span
from traceanalyzer.report.page.phase_strip import phase_strip
from traceanalyzer.report.page.phases import (
    DEVICES_APART,
    phase_meaning,
    phase_name,
    phases_seen,
    shares_by_phase,
    stacked,
)
from traceanalyzer.report.page.round_trip import round_trips
from traceanalyzer.report.page.step_strip import chart_data, kind_word, step_strip, wait_strip
from traceanalyzer.report.page.timeline_link import (
    finding_query,
    findings_shown,
    gap_lanes,
    place_link,
    timeline_place,
)

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.model import Report

_PACKAGE = "traceanalyzer.report.page"
_ALLOCATORS_SHOWN = 10
_HOLDERS_SHOWN = 15
# What stands open of a finding; the rest of it is folded.
_EVIDENCE_OPEN = 4
_OPS_OPEN = 8
_PLACES_OPEN = 3
_OPS_OF_LINE = 3
# What may stand within an entry of a list, such as the causes of a finding.
_LISTED_WITHIN = 8
_RULED_OUT = 24
_CODE_LINES = 60
_PARAGRAPHS = 12
_FINDINGS_NAMED = 1000
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
    """Return prose in stretches: what stands between two backticks is code."""
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
    made.globals.update(
        allocators_shown=_ALLOCATORS_SHOWN,
        memory_holders_shown=_HOLDERS_SHOWN,
        devices_apart=DEVICES_APART,
        icicle=icicle.icicle,
        memory_data=memory_data,
        memory_line=memory_line,
        memory_span=memory_span,
        # Our own files, no report's text.
        style=Markup(assets.style()),  # noqa: S704
        early_script=Markup(assets.early_script()),  # noqa: S704
        script=Markup(assets.script()),  # noqa: S704
        content_security_policy=assets.content_security_policy(),
        copy_edges=views.copy_edges,
        copy_group_rows=group_copies.group_rows,
        directions=text.DIRECTIONS,
        readers=text.READERS,
        device_pictures=device_copies.device_pictures,
        devices_in_short=views.devices_in_short,
        evidence_open=_EVIDENCE_OPEN,
        explained_parts=views.explained_parts,
        explanations=views.explanations,
        finding_query=finding_query,
        findings_in_full=views.FINDINGS_IN_FULL,
        findings_shown=findings_shown,
        fragment=views.fragment,
        gap_lanes=gap_lanes,
        grid=grids.grid,
        health_in_short=views.health_in_short,
        group_pictures=group_copies.group_pictures,
        homes=views.homes,
        idle_of=views.idle_of,
        in_a_step=views.in_a_step,
        is_cpu_op=grids.is_cpu_op,
        kept_by_several=views.kept_by_several,
        node_labels=views.node_labels,
        numbered_findings=views.numbered_findings,
        nothing_on_the_cpu=views.nothing_on_the_cpu,
        numbered_on_a_gpu=views.numbered_on_a_gpu,
        ops_listed=views.ops_listed,
        ops_of_line_shown=_OPS_OF_LINE,
        ops_open=_OPS_OPEN,
        places_open=_PLACES_OPEN,
        listed_within=_LISTED_WITHIN,
        ruled_out_shown=_RULED_OUT,
        code_lines_shown=_CODE_LINES,
        paragraphs_shown=_PARAGRAPHS,
        findings_named=_FINDINGS_NAMED,
        ops_grid=grids.ops_grid,
        rows_shown=grids.ROWS_SHOWN,
        libraries=vendored.packages(),
        round_trips=round_trips,
        source_places=views.source_places,
        phase_strip=phase_strip,
        phases_seen=phases_seen,
        scope_data=icicle.scope_data,
        scope_levels=icicle.LEVELS,
        shares_by_phase=shares_by_phase,
        stage_pipelines=stage_pipelines,
        step_data=chart_data,
        step_strip=step_strip,
        wait_strip=wait_strip,
        place_link=place_link,
        timeline_finding_data=timeline_picture.finding_table,
        timeline_hatches=timeline_picture.HATCHES,
        timeline_height=timeline_picture.kind_height,
        timeline_kinds=timeline_picture.KIND_WORDS,
        timeline_labels=timeline_picture.finding_names,
        timeline_lane_data=timeline_picture.lane_table,
        timeline_place=timeline_place,
        timeline_picture=timeline_picture.timeline_picture,
        why_silent=views.why_silent,
        why_unknown=views.why_unknown,
    )
    made.filters.update(
        breakable=breakable,
        code_lines=code_lines,
        counted="{:,}".format,
        cut=text.cut,
        cut_long=text.cut_long,
        duration=duration,
        gap_words=timeline_picture.gap_words,
        host_time=views.host_time,
        kind_word=kind_word,
        paragraphs=paragraphs,
        part=share,
        phase_meaning=phase_meaning,
        phase_name=phase_name,
        size=size,
        stacked=stacked,
        sentence=text.sentence,
        spans=spans,
        words=views.cause_title,
    )
    return made

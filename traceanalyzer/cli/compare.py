"""`traceanalyzer compare`: what differs between two runs?"""

from pathlib import Path

import click

from traceanalyzer.cli.parameters import STDOUT, max_memory, output, refuse, writable
from traceanalyzer.cli.terminal import console, progress


@click.command()
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@output("-o", "--output", "html", metavar="HTML", help="Page to write.")
@output("--json", metavar="JSON", help="Data to write; `-` is standard output.")
@max_memory
def compare(
    base: Path, new: Path, *, html: Path | None, json: Path | None, max_memory_bytes: int | None
) -> None:
    """Print what differs between two runs: step time, placement, findings, and transfers.

    BASE and NEW are profiles or report.json files. A step time counts as changed only if the
    difference exceeds the usual variation between steps and between runs.
    """
    from traceanalyzer.compare.differences import compare as compared
    from traceanalyzer.compare.document import as_json
    from traceanalyzer.compare.page import page_of
    from traceanalyzer.compare.reports import report_of
    from traceanalyzer.report.html import render_page
    from traceanalyzer.report.terminal import print_page
    from traceanalyzer.whole_file import write_whole

    if html == STDOUT:
        refuse("the page cannot be standard output; name a file")
    for file in (html, json):
        if file is not None and file != STDOUT:
            writable(file)
            if any(file.exists() and path.exists() and file.samefile(path) for path in (base, new)):
                refuse(f"{file}: this is a report to compare; name another file to write")
    if html is not None and json is not None and html.resolve() == json.resolve():
        refuse("two outputs cannot be the same file; name two files")
    with progress() as tell:
        reports = [report_of(path, None, max_memory_bytes, tell) for path in (base, new)]
        comparison = compared(*reports)
    page = page_of(comparison, *reports)
    if html is not None:
        write_whole(html, render_page(page))
    if json is not None and json != STDOUT:
        write_whole(json, as_json(comparison, *reports))
    if json == STDOUT:
        click.echo(as_json(comparison, *reports), nl=False)
    else:
        with console() as screen:
            print_page(page, screen, ": see the page" if html else ": write the page with `-o`")
        for file in filter(None, (html, json)):
            click.echo(f"wrote {file}")

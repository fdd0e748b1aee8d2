"""The commands on two runs: `compare` says what differs, and `verify` whether a fix helped."""

from __future__ import annotations

import json
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from traceanalyzer.cli.capture import capture
from traceanalyzer.cli.parameters import STDOUT, check_outputs, max_memory, output, refuse
from traceanalyzer.cli.terminal import complain, console, outlives_reader, progress, tell
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.format import printable, series

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traceanalyzer.model import Report
    from traceanalyzer.model.changes import Change

_NOT_FIXED = 1


@click.command()
@click.argument("base", type=click.Path(path_type=Path))
@click.argument("new", type=click.Path(path_type=Path))
@output("-o", "--output", "html", metavar="HTML", help="Page to write.")
@output("--json", "data", metavar="JSON", help="Data to write; `-` is standard output.")
@max_memory
def compare(
    base: Path, new: Path, *, html: Path | None, data: Path | None, max_memory_bytes: int | None
) -> None:
    """Print what differs between two runs: step time, placement, findings, and transfers.

    BASE and NEW are profiles or report.json files. A step time counts as changed only if the
    difference exceeds the usual variation between steps and between runs.
    """
    from traceanalyzer.compare.differences import compare as compared
    from traceanalyzer.compare.output import as_json, page_of
    from traceanalyzer.compare.reports import report_of
    from traceanalyzer.report.html import render_page
    from traceanalyzer.report.terminal import print_page
    from traceanalyzer.whole_file import write_whole

    if html == STDOUT:
        refuse("the page cannot be standard output; name a file")
    check_outputs((html, data), (base, new))
    with progress() as say:
        reports = [report_of(path, None, max_memory_bytes, say) for path in (base, new)]
        comparison = compared(*reports)
    page = page_of(comparison, *reports)
    if html is not None:
        write_whole(html, render_page(page))
    if data is not None and data != STDOUT:
        write_whole(data, as_json(comparison, *reports))
    if data == STDOUT:
        click.echo(as_json(comparison, *reports), nl=False)
    else:
        with console() as screen:
            print_page(page, screen, ": see the page" if html else ": write the page with `-o`")
        for file in filter(None, (html, data)):
            click.echo(f"wrote {file}")


@click.command()
@click.argument("report", type=click.Path(path_type=Path))
@click.option(
    "--finding", "finding_id", metavar="ID", help="Finding to check. Default: the only harmful one."
)
@click.option(
    "--apply",
    "is_applied",
    is_flag=True,
    help="Run the program with the finding's diff applied; no file is edited.",
)
@click.option(
    "--python", metavar="PATH", help="Interpreter to run the script with. Default: this one."
)
def verify(report: Path, *, finding_id: str | None, is_applied: bool, python: str | None) -> None:
    """Run a captured program again after a fix, and say whether the fix helped.

    REPORT is the profile or report.json from before the fix. `check` prints the ids of findings.
    Edit the program first, or use --apply. Run this command in the folder where the program was
    captured, because it repeats the recorded command. With --apply, processes that the program
    starts run the unedited files. Exit code 0: fixed. 1: not fixed.
    """
    from traceanalyzer.compare.reports import report_of
    from traceanalyzer.compare.verification import changes_for, finding_of, verified

    base = report_of(report)
    finding = finding_of(base, finding_id)
    changes = changes_for(base, finding) if is_applied else ()
    words = _command(report, base)
    with tempfile.TemporaryDirectory(prefix="traceanalyzer-") as folder:
        code = _repeat(words, Path(folder), python, changes)
        if code:
            msg = f"the program ended with exit code {code}; correct it, and verify again"
            if python is None:
                msg += ", or name its interpreter with --python"
            raise TraceAnalyzerError(msg)
        new = report_of(Path(folder, "logs"))
    verdict = verified(base, finding, new)
    complain(finding.title)
    if changes:
        complain(f"applied, without editing files: {series([c.title for c in changes])}")
    with outlives_reader():
        click.echo(str(verdict).replace("\N{NO-BREAK SPACE}", " "))
    if not verdict.is_fixed:
        raise click.exceptions.Exit(_NOT_FIXED)


def _command(path: Path, report: Report) -> list[str]:
    """Return the recorded arguments of `traceanalyzer capture`."""
    from traceanalyzer.capture_file.recorded_run import MASK

    words = shlex.split(report.run.command or "")
    if words[:2] != ["traceanalyzer", "capture"]:
        msg = f"{path}: not made by `traceanalyzer capture`, so there is no command to repeat; "
        raise TraceAnalyzerError(msg + "capture the program before and after the fix, and compare")
    if any(MASK in word for word in words):
        msg = f"{path}: its command contains a secret, which was not recorded; "
        raise TraceAnalyzerError(msg + "capture the program again yourself, and compare")
    return words[2:]


def _repeat(words: list[str], folder: Path, python: str | None, changes: Sequence[Change]) -> int:
    """Repeat a capture in another folder, with the changes applied; return the exit code."""
    from traceanalyzer.capturing.script import EDITED_PROGRAM
    from traceanalyzer.compare.verification import edited_files

    logs = folder / "logs"
    try:
        repeated = capture.make_context("traceanalyzer capture", words)
    except click.UsageError as error:
        why = error.format_message().rstrip(".")
        msg = f"the recorded command cannot be repeated: {why}; capture the program again"
        raise TraceAnalyzerError(msg) from error
    with repeated as context:
        options: dict[str, Any] = {**context.params, "logdir": logs, "no_report": True}
        # The trace is gone in the end, so its path helps nobody.
        options["say"] = lambda line: None if folder.name in line else tell(line)
        options["python"] = python
        script, is_module = options["script"], options["is_module"]
        if not is_module and not Path(script).exists():
            where = "where you captured it, or in the script's own folder"
            msg = f"{printable(script)}: not in this folder; run this command {where}"
            raise TraceAnalyzerError(msg)
        if changes:
            folders = [Path() if is_module else Path(script).parent, Path()]
            edits = (edit for change in changes for edit in change.edits)
            file = folder / "edited.json"
            file.write_text(json.dumps(edited_files(edits, folders)), encoding="utf-8")
            target = ["-m", script] if is_module else [script]
            options["arguments"] = (str(file), *target, *options["arguments"])
            # The recorder would keep the lines of the files as they are.
            options.update(script=str(EDITED_PROGRAM), is_module=False, source=False)
        return int(context.invoke(capture.callback, **options) or 0)  # type: ignore[arg-type]

"""`traceanalyzer verify`: did a fix help?"""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import Any

import click

from traceanalyzer.cli.capture import capture
from traceanalyzer.cli.terminal import complain
from traceanalyzer.errors import TraceAnalyzerError

_NOT_FIXED = 1


@click.command()
@click.argument("report", type=click.Path(path_type=Path))
@click.option(
    "--finding", "finding_id", required=True, metavar="ID", help="The finding that was fixed."
)
def verify(report: Path, *, finding_id: str) -> None:
    """Run a captured program again after a fix, and say whether the fix helped.

    REPORT is the profile or report.json from before the fix. Edit the program first, and run this
    in the folder where it was captured: the recorded command is repeated. Exit code 0: fixed. 1:
    not fixed.
    """
    from traceanalyzer.capture_file.recorded_run import MASK
    from traceanalyzer.compare.reports import report_of
    from traceanalyzer.compare.verification import finding_of, verified

    base = report_of(report)
    finding = finding_of(base, finding_id)
    words = shlex.split(base.run.command or "")
    if words[:2] != ["traceanalyzer", "capture"]:
        msg = f"{report}: not made by `traceanalyzer capture`, so there is no command to repeat; "
        raise TraceAnalyzerError(msg + "capture the program before and after the fix, and compare")
    if any(MASK in word for word in words):
        msg = f"{report}: its command has a secret, which was not recorded; "
        raise TraceAnalyzerError(msg + "capture the program again yourself, and compare")
    with tempfile.TemporaryDirectory(prefix="traceanalyzer-") as folder:
        code = _repeat(words[2:], Path(folder))
        if code:
            msg = f"the program ended with exit code {code}; correct it, and verify again"
            raise TraceAnalyzerError(msg)
        new = report_of(Path(folder))
    verdict = verified(base, finding, new)
    complain(finding.title)
    click.echo(str(verdict).replace("\N{NO-BREAK SPACE}", " "))
    if not verdict.is_fixed:
        raise click.exceptions.Exit(_NOT_FIXED)


def _repeat(arguments: list[str], folder: Path) -> int:
    """Capture again with the same arguments, but into another folder; return the exit code."""
    with capture.make_context("traceanalyzer capture", arguments) as context:
        options: dict[str, Any] = {**context.params, "logdir": folder, "no_report": True}
        return int(context.invoke(capture.callback, **options) or 0)  # type: ignore[arg-type]

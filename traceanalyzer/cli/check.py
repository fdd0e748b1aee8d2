"""`traceanalyzer check`: does a run stay within its limits?"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceanalyzer.check.formats import FORMATS
from traceanalyzer.cli.parameters import RunToRead, reads_a_run
from traceanalyzer.cli.terminal import outlives_reader, progress
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.format import printable

if TYPE_CHECKING:
    from traceanalyzer.check.formats import Format

_BREACHED, _UNKNOWN = 1, 2


@click.command()
@reads_a_run
@click.option(
    "--budget",
    "budget_file",
    type=click.Path(path_type=Path),
    metavar="TOML",
    help="File with limits, forbidden causes and ops, and accepted findings.",
)
@click.option(
    "--baseline",
    "baseline_path",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Fail if the run is worse than this report.json or profile.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    help="Output format. Default: text.",
)
def check(
    source: RunToRead, *, budget_file: Path | None, baseline_path: Path | None, form: Format
) -> None:
    """Check a profile or a report.json against limits, for use in CI.

    Exit code 0: within all limits. 1: limits are exceeded, one line each. 2: a limit cannot be
    checked, or the baseline has too little in common with the run. Without --budget and
    --baseline, no finding may be harmful. A budget has these keys:

    \b
      [limits]                          # figures with units
      step_time = "12 ms"               # the median step, at most
      exposed_time_per_step = "500 us"  # GPU wait for ops on the CPU, at most
      cpu_op_share = "5 %"              # share of op time spent in CPU ops, at most
      explained_share = "90 %"          # of the time of CPU ops, at least
      [forbidden]
      harmful = true                    # any harmful finding
      causes = ["explicit_cpu_placement"]
      cpu_ops = ["^MatMul$"]            # regular expressions for names and types
      [[accepted]]                      # does not count until it expires
      id = "4b278816b8"
      reason = "top_k on the GPU is slower"
      expires = 2027-06-30
    """  # noqa: D301 - click reads the backspace
    from traceanalyzer.check.budget import DEFAULT, Budget, read_budget

    budget = DEFAULT if baseline_path is None else Budget()
    if budget_file is not None:
        budget = read_budget(budget_file)

    from traceanalyzer.check.breaches import breaches, notes, rules_of
    from traceanalyzer.check.formats import Outcome, located, rendered
    from traceanalyzer.compare.reports import report_of

    rules = rules_of(budget, has_baseline=baseline_path is not None)
    if not rules:
        advice = "add one, such as `harmful = true` under `[forbidden]`"
        msg = f"{printable(budget_file or '')}: the budget sets no limit; {advice}"
        raise TraceAnalyzerError(msg)
    with progress() as tell:
        limit = source.max_memory_bytes
        # The baseline comes first: mostly a small file, whose errors show at once.
        base = None if baseline_path is None else report_of(baseline_path, None, limit, tell)
        report = report_of(source.path, source.run_name, limit, tell, source.graphs)
    found = located(breaches(report, budget, base, datetime.now(UTC).date()), Path.cwd())
    outcome = Outcome(str(source.path), rules, found, notes(report, budget, base))
    with outlives_reader():
        click.echo(rendered(outcome, form), nl=False)
    if found:
        is_unknown = any(each.is_unknown for each in found)
        raise click.exceptions.Exit(_UNKNOWN if is_unknown else _BREACHED)

"""`traceanalyzer capture`: run a script under the recorder."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from traceanalyzer.cli.parameters import duration, file_name, refuse, time, writable
from traceanalyzer.cli.parameters import steps as steps_range
from traceanalyzer.cli.terminal import tell

PAGE = "traceanalyzer-report.html"
_FOR_S = 10.0


class _Command(click.Command):
    """A command that stores its own command line in `ctx.obj`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.obj = ("traceanalyzer", "capture", *args)
        return super().parse_args(ctx, args)


@click.command(
    cls=_Command,
    context_settings={"allow_interspersed_args": False},
    options_metavar="[OPTIONS] [-m]",
)
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")
@click.option("-m", "is_module", is_flag=True, help="Run SCRIPT as a module, like python -m.")
@click.option(
    "--python",
    metavar="PATH",
    help="Interpreter (with options) to run the script with. Default: this one.",
)
@click.option(
    "--logdir",
    type=file_name,
    default="traceanalyzer-logs",
    metavar="DIR",
    help="Log directory, which TensorBoard can read. Default: traceanalyzer-logs.",
)
@click.option("--run", metavar="NAME", help="Name of the run. Default: the current time.")
@click.option(
    "--report",
    "page",
    type=file_name,
    default=PAGE,
    metavar="HTML",
    help=f"Page to write. Default: {PAGE}.",
)
@click.option("--no-report", is_flag=True, help="Do not write a page.")
@click.option(
    "--steps",
    type=steps_range,
    metavar="A:B",
    help="Record steps A to B (inclusive), counted from 1: calls of the most-called function.",
)
@click.option(
    "--after", type=time, metavar="TIME", help="Start this long after TensorFlow loads, e.g. 30s."
)
@click.option(
    "--for", "for_s", type=duration, metavar="TIME", help="Record for this long. Default: 10s."
)
@click.option(
    "--host-tracer-level",
    type=click.IntRange(1, 3),
    default=2,
    metavar="LEVEL",
    help="Level 3 adds shapes, cheap ops, and ops on GPUs, and takes up to 20% longer. Default: 2.",
)
@click.option(
    "--source/--no-source",
    default=True,
    help="Record the text of source lines that create ops, for reports. Default: on.",
)
def capture(  # noqa: PLR0913 - options
    *,
    script: str,
    arguments: tuple[str, ...],
    is_module: bool,
    python: str | None,
    page: Path,
    no_report: bool,
    steps: tuple[int, int] | None,
    after: float | None,
    for_s: float | None,
    say: Callable[[str], None] = tell,
    **settings: Any,  # noqa: ANN401 - as in `Request`
) -> int:
    """Run a script under TensorFlow's profiler, and write a report on it.

    SCRIPT and ARGUMENTS are as in `python SCRIPT ARGUMENTS`. The script's terminal, signals,
    output, and exit code are the same as without the capture.

    A script that runs for less than 20 s is recorded in full, except for loops of more than 10,000
    eager ops. For a longer script, a few seconds of steps are recorded: repeated calls of a
    function, training with Keras `fit`, or repeating eager ops. The report says how much was
    recorded. Choose another part with --steps, or with --after and --for.

    The trace (HOST.xplane.pb) is written to the log directory, together with the capture file
    (HOST.placement.json.gz), which contains requested devices, dtypes, source lines, and the
    graphs that TensorFlow placed. Arguments that look like secrets are masked.

    Processes that the script starts are not recorded. If SIGKILL ends the script, the trace that
    was being recorded is lost, and the report has no times. In code, use
    `traceanalyzer.capture(logdir)` or `traceanalyzer.capture_callback(logdir)`.
    """
    from traceanalyzer.capturing.orchestrate import Request, record
    from traceanalyzer.capturing.script import Program, end_like, interpreter

    program = Program(
        interpreter=interpreter(python), target=script, is_module=is_module, arguments=arguments
    )
    report = None if no_report else _not_over(writable(page), program.sources)
    window = _window(steps, after, for_s)
    command = click.get_current_context().obj
    request = Request(program=program, window=window, report=report, command=command, **settings)
    return end_like(record(request, say))


def _window(
    steps: tuple[int, int] | None, after: float | None, for_s: float | None
) -> dict[str, object]:
    is_timed = after is not None or for_s is not None
    if steps is not None and is_timed:
        refuse("--steps cannot be combined with --after or --for; choose steps or times")
    if steps is not None:
        return {"kind": "steps", "first": steps[0], "last": steps[1]}
    if is_timed:
        return {"kind": "time", "after_s": after or 0.0, "for_s": for_s or _FOR_S}
    return {"kind": "auto"}


def _not_over(page: Path, sources: Iterable[Path]) -> Path:
    if page.exists() and any(page.samefile(source) for source in sources if source.exists()):
        refuse(f"{page}: this is the script; name another file for the page")
    return page

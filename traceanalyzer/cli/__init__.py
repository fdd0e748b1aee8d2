"""The command line: one function per command. Only this package prints."""

from __future__ import annotations

import errno
import gc
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceanalyzer.cli.capture import PAGE, capture
from traceanalyzer.cli.parameters import STDOUT, reads_a_run, regex, writable
from traceanalyzer.cli.terminal import complain, console, echo_json, progress
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.format import printable

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from traceanalyzer.diagnosis import Diagnosis
    from traceanalyzer.model import Report
    from traceanalyzer.report.write import Form

_DONE, _ERROR, _INTERRUPTED = 0, 2, 130
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
# Objects made before Python collects garbage. Its default of 700 costs 8 % of a report's time and
# finds next to nothing.
_OBJECTS_PER_COLLECTION = 100_000


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="traceanalyzer", message="%(prog)s %(version)s")
def cli() -> None:
    """Why did this TensorFlow op run on the CPU, what does it cost, and what do I change?"""


@cli.command()
@reads_a_run
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="HTML", help="Page to write."
)
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path), metavar="JSON", help="Data to write."
)
@click.option(
    "--markdown",
    "markdown_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The page as Markdown, for an issue or a review.",
)
def report(  # noqa: PLR0913 - as many as it has options
    path: Path,
    *,
    output: Path | None,
    json_file: Path | None,
    markdown_file: Path | None,
    run_name: str | None,
    max_memory_bytes: int | None,
) -> None:
    """Write the report of a profile: PATH is a log directory, a run directory, or a trace file.

    Without -o, --json, and --markdown, the page is written to traceanalyzer-report.html. `-` is
    standard output.
    """
    if output is None and json_file is None and markdown_file is None:
        output = Path(PAGE)
    outputs: dict[Form, Path | None] = {
        "html": output,
        "json": json_file,
        "markdown": markdown_file,
    }
    named = [file for file in outputs.values() if file is not None]
    files = [writable(file) for file in named if file != STDOUT]
    if len({file.resolve() for file in named}) < len(named):
        msg = f"{named[0]}: two outputs cannot be the same file; name two files"
        raise click.UsageError(msg)
    _refuse_inputs(path, files)
    with progress() as tell:
        made = _report(path, run_name, max_memory_bytes, tell)
        tell("writing")
        from traceanalyzer.report.write import text_of, write_files

        write_files(made, {form: None if f == STDOUT else f for form, f in outputs.items()})
    for form, file in outputs.items():
        if file == STDOUT:
            click.echo(text_of(made, form).encode(), nl=False)
    is_taken = STDOUT in named
    for answer in _answer(made):
        click.echo(answer, err=is_taken)
    for file in files:
        click.echo(f"wrote {printable(file)}", err=is_taken)


@cli.command()
@reads_a_run
@click.option(
    "--op",
    "expression",
    type=regex,
    metavar="REGEX",
    help="Explain the placement of each op whose name or type matches, in full.",
)
@click.option("--all", "everything", is_flag=True, help="Print the whole report.")
def analyze(
    path: Path,
    expression: re.Pattern[str] | None,
    run_name: str | None,
    max_memory_bytes: int | None,
    *,
    everything: bool,
) -> None:
    """Print what happened, what to change, and where a step goes; or explain single ops."""
    if expression is not None:
        from traceanalyzer.cli.reasoning_text import print_reasonings
        from traceanalyzer.report.reasoning import reason

        with progress() as tell:
            reasoned = reason(_diagnosis(path, run_name, max_memory_bytes, tell), expression)
        with console() as screen:
            print_reasonings(reasoned, screen)
        return
    with progress() as tell:
        made = _report(path, run_name, max_memory_bytes, tell)

    from traceanalyzer.report.terminal import print_first_screen, print_page

    if made.page is not None:
        with console() as screen:
            (print_page if everything else print_first_screen)(made.page, screen)


@cli.command()
@reads_a_run
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Folder to write.",
)
@click.option("--events", is_flag=True, help="Also write every event, as Parquet only.")
def tables(
    path: Path, output: Path, run_name: str | None, max_memory_bytes: int | None, *, events: bool
) -> None:
    """Write the tables of a profile as Parquet and CSV, one folder per run."""
    from traceanalyzer.export import write_tables
    from traceanalyzer.run import load, runs

    if output == STDOUT:
        msg = "-: tables are several files; name a folder to write them to"
        raise click.UsageError(msg)
    if output.exists() and not output.is_dir():
        msg = f"{output}: this is a file; name a folder to write the tables to"
        raise click.UsageError(msg)
    failed = False
    for name in [run_name] if run_name else runs(path):
        try:
            with progress() as tell:
                run = load(path, name, max_memory_bytes=max_memory_bytes, progress=tell)
                tell("writing tables")
                written = write_tables(run, output, with_events=events)
        except TraceAnalyzerError as error:
            complain(str(error))
            failed = True
        else:
            click.echo(f"wrote {written}")
    if failed:
        raise click.exceptions.Exit(_ERROR)


@cli.command()
@reads_a_run
@click.option(
    "--transfer-graph",
    is_flag=True,
    help="Transfers between ops as a graph, .graphml or .json.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="File to write; its ending sets the format.",
)
def export(
    path: Path,
    output: Path,
    run_name: str | None,
    max_memory_bytes: int | None,
    *,
    transfer_graph: bool,
) -> None:
    """Write parts of the analysis for other programs to read."""
    if not transfer_graph:
        msg = "say what to export: --transfer-graph"
        raise click.UsageError(msg)
    from traceanalyzer.run import load
    from traceanalyzer.transfers.graph import FORMATS
    from traceanalyzer.whole_file import write_whole

    written = FORMATS.get(output.suffix.lower())
    if written is None:
        msg = f"{output}: unknown format; end the name in {' or '.join(FORMATS)}"
        raise click.UsageError(msg)
    _refuse_inputs(path, [writable(output)])
    with progress() as tell:
        run = load(path, run_name, max_memory_bytes=max_memory_bytes, progress=tell)
        tell("writing")
        write_whole(output, written(run.transfer_graph))
    click.echo(f"wrote {output}")


@cli.command()
@click.argument("op", required=False)
@click.option("--dtype", metavar="TYPE", help="Answer for this dtype only, e.g. int32.")
@click.option(
    "--tf", metavar="VERSION", help="TensorFlow version, e.g. 2.15. Default: the newest known."
)
@click.option("--cpu-only", is_flag=True, help="List the ops without a GPU kernel.")
@click.option("--json", "as_data", is_flag=True, help="Print JSON.")
def kernels(
    op: str | None, dtype: str | None, tf: str | None, *, cpu_only: bool, as_data: bool
) -> None:
    """Print for which dtypes OP has a GPU kernel, since which version, and what stays on the host.

    OP is an op type, e.g. MatMul. TensorFlow need not be installed.
    """
    from traceanalyzer import kernel_answers

    if (op is None) != cpu_only:
        msg = "give either an op type, e.g. MatMul, or --cpu-only"
        raise click.UsageError(msg)
    if op is None:
        listed = kernel_answers.cpu_only(dtype, tf)
        if as_data:
            echo_json(kernel_answers.as_json(listed))
            return
        for note in listed.notes:
            complain(note)
        for name in listed.ops:
            click.echo(name)
        return
    answer = kernel_answers.answer(op, dtype, tf)
    if as_data:
        echo_json(kernel_answers.as_json(answer))
        return
    from traceanalyzer.cli.kernel_text import print_answer

    with console() as screen:
        print_answer(answer, screen)


@cli.command()
@click.argument("cause", required=False)
@click.option("--terms", is_flag=True, help="Print the glossary.")
@click.option("--json", "as_data", is_flag=True, help="Print JSON.")
def explain(cause: str | None, *, terms: bool, as_data: bool) -> None:
    """Print what a CAUSE means, why it happens, and how to fix it.

    CAUSE is an id from a report, e.g. no_gpu_kernel. Without one, the causes are listed.
    """
    from traceanalyzer.causes import all_causes
    from traceanalyzer.cli import explain_text
    from traceanalyzer.report import text

    if terms:
        if cause is not None:
            msg = "--terms prints the glossary; leave out CAUSE, or --terms"
            raise click.UsageError(msg)
        glossary = text.terms()
        if as_data:
            echo_json(glossary)
            return
        with console() as screen:
            explain_text.print_terms(glossary, screen)
        return
    causes = all_causes()
    found = None if cause is None else explain_text.find_cause(cause, causes)
    if as_data:
        data = explain_text.list_json(causes) if found is None else explain_text.page_json(found)
        echo_json(data)
        return
    with console() as screen:
        if found is None:
            explain_text.print_causes(causes, screen)
        else:
            explain_text.print_cause(found, screen)


cli.add_command(capture)


def _report(
    path: Path,
    run_name: str | None,
    max_memory_bytes: int | None,
    tell: Callable[[str], None],
) -> Report:
    diagnosis = _diagnosis(path, run_name, max_memory_bytes, tell)
    from traceanalyzer.report.assemble import assemble

    return assemble(diagnosis)


def _answer(made: Report) -> list[str]:
    """Return what happened and what to do next."""
    from traceanalyzer.report.inline import plain
    from traceanalyzer.report.text import visible

    texts = () if made.page is None else (made.page.happened, made.page.next)
    return [visible(plain(text)) for text in texts if text]


def _diagnosis(
    path: Path,
    run_name: str | None,
    max_memory_bytes: int | None,
    tell: Callable[[str], None],
) -> Diagnosis:
    tell("starting")
    from traceanalyzer.diagnosis import diagnose
    from traceanalyzer.run import load

    run = load(path, run_name, max_memory_bytes=max_memory_bytes, progress=tell)
    tell("explaining")
    return diagnose(run)


def _refuse_inputs(path: Path, outputs: list[Path]) -> None:
    """Refuse to write over a trace."""
    from traceanalyzer.trace.discovery import find_runs

    inputs = [host.path for run in find_runs(path) for host in run.hosts]
    for file in outputs:
        if file.exists() and any(file.samefile(trace) for trace in inputs if trace.exists()):
            msg = f"{file}: this is the trace to read; name another file to write"
            raise click.UsageError(msg)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. A failure is one line on stderr and exit code 2."""
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    arguments = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        code = cli.main(args=arguments, prog_name="traceanalyzer", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted", _INTERRUPTED)
    except click.ClickException as error:
        _fail(error.format_message())
    except TraceAnalyzerError as error:
        _fail(str(error))
    except (BrokenPipeError, SystemExit):
        # The reader of a pipe went away: click and rich would end the process with 1.
        # Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(_DONE)
    except OSError as error:
        room = "; make room, or write elsewhere" if error.errno in _NO_ROOM else ""
        name = printable(error.filename or "output")
        _fail(f"{name}: {(error.strerror or str(error)).lower()}{room}")
    except MemoryError:
        _fail("out of memory; set --max-memory, or record fewer steps")
    sys.exit(code or _DONE)  # click returns the exit code of `capture`


def _fail(message: str, code: int = _ERROR) -> None:
    complain(message)
    sys.exit(code)

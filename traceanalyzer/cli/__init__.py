"""The command line: one function per command. Only this package prints."""

from __future__ import annotations

import errno
import gc
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceanalyzer.cli.capture import PAGE, capture
from traceanalyzer.cli.check import check
from traceanalyzer.cli.compare import compare, verify
from traceanalyzer.cli.doctor import doctor
from traceanalyzer.cli.parameters import STDOUT, RunToRead, output, reads_a_run, refuse, regex
from traceanalyzer.cli.terminal import complain, console, discard_output, echo_json, progress
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.format import listed, printable
from traceanalyzer.version import VERSION

if TYPE_CHECKING:
    import re

    from traceanalyzer.report.document import Form

_DONE, _ERROR, _INTERRUPTED = 0, 2, 130
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
# Objects made before Python collects garbage. Its default of 700 takes 8 % of a report's time and
# frees almost nothing.
_OBJECTS_PER_COLLECTION = 100_000


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, message="%(prog)s %(version)s")
def cli() -> None:
    """Why did this TensorFlow op run on the CPU, what does it cost, and what do I change?"""


@cli.command()
@reads_a_run
@output("-o", "--output", "html", metavar="HTML", help="Page to write.")
@output("--json", metavar="JSON", help="Data to write.")
@output("--markdown", metavar="FILE", help="Markdown to write, for an issue or a review.")
def report(
    source: RunToRead, *, html: Path | None, json: Path | None, markdown: Path | None
) -> None:
    """Write the report of a profile: PATH is a log directory, a run directory, or a trace file.

    Without -o, --json, and --markdown, the page is written to traceanalyzer-report.html. `-` is
    standard output.
    """
    if html is None and json is None and markdown is None:
        html = Path(PAGE)
    outputs: dict[Form, Path | None] = {"html": html, "json": json, "markdown": markdown}
    source.refuse_to_overwrite(outputs.values())
    files = [file for file in outputs.values() if file is not None and file != STDOUT]
    earlier = [str(file) for file in files if file.exists()]
    with progress() as tell:
        diagnosis = source.diagnose(tell)
        from traceanalyzer.report.assemble import assemble
        from traceanalyzer.report.document import text_of, write_files
        from traceanalyzer.report.text import plain, visible

        made = assemble(diagnosis)
        tell("writing")
        write_files(made, {form: None if f == STDOUT else f for form, f in outputs.items()})
    if earlier:
        complain(f"replaced {listed(earlier)}, written earlier")
    for form, file in outputs.items():
        if file == STDOUT:
            click.echo(text_of(made, form).encode(), nl=False)
    texts = () if made.page is None else (made.page.happened, made.page.next)
    for line in [*(plain(text) for text in texts if text), *(f"wrote {f}" for f in files)]:
        click.echo(visible(line), err=STDOUT in outputs.values())


@cli.command()
@reads_a_run
@click.option(
    "--op",
    "expression",
    type=regex,
    metavar="REGEX",
    help="Explain in full the placement of each op whose name or type matches REGEX.",
)
@click.option("--all", "everything", is_flag=True, help="Print the whole report.")
def analyze(source: RunToRead, *, expression: re.Pattern[str] | None, everything: bool) -> None:
    """Print what happened, where steps spend time, and what to change. With --op, explain ops."""
    with progress() as tell:
        diagnosis = source.diagnose(tell)
        from traceanalyzer.cli.explain_text import print_ops
        from traceanalyzer.report.assemble import assemble
        from traceanalyzer.report.op_details import ops_that_match
        from traceanalyzer.report.terminal import print_first_screen, print_page

        if expression is not None:
            ops, total = ops_that_match(diagnosis, expression)
        else:
            page = assemble(diagnosis).page
    with console() as screen:
        if expression is not None:
            print_ops(ops, total, screen)
        elif page is not None:
            (print_page if everything else print_first_screen)(page, screen)


@cli.command()
@reads_a_run
@output("-o", "--output", "folder", required=True, metavar="DIR", help="Folder to write.")
@click.option("--events", is_flag=True, help="Also write every event (Parquet only).")
def tables(source: RunToRead, *, folder: Path, events: bool) -> None:
    """Write the tables of a profile as Parquet and CSV, one folder per run."""
    from traceanalyzer.export import write_tables
    from traceanalyzer.run import runs

    if folder == STDOUT or (folder.exists() and not folder.is_dir()):
        what = "the tables are several files" if folder == STDOUT else "this is a file"
        refuse(f"{folder}: {what}; name a folder for the tables")
    failed = False
    for name in [source.run_name] if source.run_name else runs(source.path):
        try:
            with progress() as tell:
                run = source.load(tell, name)
                tell("writing tables")
                written = write_tables(run, folder, with_events=events)
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
    "--transfer-graph", is_flag=True, help="Export the transfers between ops (.graphml or .json)."
)
@output(
    "-o",
    "--output",
    "file",
    required=True,
    metavar="FILE",
    help="File to write; its extension sets the format.",
)
def export(source: RunToRead, *, file: Path, transfer_graph: bool) -> None:
    """Write parts of the analysis for other programs to read."""
    if not transfer_graph:
        refuse("nothing to export; give --transfer-graph")
    from traceanalyzer.transfers.graph import FORMATS
    from traceanalyzer.whole_file import write_whole

    written = FORMATS.get(file.suffix.lower())
    if written is None:
        refuse(f"{file}: unknown format; use the extension {' or '.join(FORMATS)}")
    source.refuse_to_overwrite([file])
    with progress() as tell:
        run = source.load(tell)
        tell("writing")
        write_whole(file, written(run.transfer_graph))
    click.echo(f"wrote {file}")


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
    """Print which dtypes OP's GPU kernels support, since which version, and what stays on the host.

    OP is an op type, e.g. MatMul. TensorFlow need not be installed.
    """
    from traceanalyzer.placement import kernel_answers

    if (op is None) != cpu_only:
        refuse("give either an op type, e.g. MatMul, or --cpu-only")
    if op is None:
        ops, notes = kernel_answers.cpu_only(dtype, tf)
        if as_data:
            echo_json({"ops": ops, "notes": notes})
            return
        for note in notes:
            complain(note)
        for name in ops:
            click.echo(name)
        return
    answer = kernel_answers.answer(op, dtype, tf)
    if as_data:
        echo_json(asdict(answer))
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

    CAUSE is an id from a report, e.g. no_gpu_kernel. Without CAUSE, all causes are listed.
    """
    from traceanalyzer.causes import all_causes
    from traceanalyzer.cli import explain_text as said
    from traceanalyzer.report.text import terms as all_terms

    if terms and cause is not None:
        refuse("--terms and CAUSE cannot be combined; leave one of them out")
    causes = all_causes()
    found = None if cause is None else said.find_cause(cause, causes)
    if as_data:
        every: object = [{"cause": each.id, "title": each.title} for each in causes]
        if found is not None:
            text = found.documentation
            every = {"cause": found.id, "title": found.title, "documentation": text}
        echo_json(all_terms() if terms else every)
        return
    with console() as screen:
        if terms:
            said.print_terms(all_terms(), screen)
        elif found is None:
            said.print_causes(causes, screen)
        else:
            said.print_cause(found, screen)


for command in (capture, check, compare, verify, doctor):
    cli.add_command(command)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line. On failure, print one line on stderr and exit with code 2."""
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    arguments = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if sys.stdout is None:
        complain("standard output is closed, so nothing is printed there")
        discard_output()
    try:
        code = cli.main(args=arguments, prog_name="traceanalyzer", standalone_mode=False)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted", _INTERRUPTED)
    except click.ClickException as error:
        _fail(_with_help(error))
    except TraceAnalyzerError as error:
        _fail(str(error))
    except (BrokenPipeError, SystemExit):
        # The reader of a pipe went away: click and rich would end the process with 1.
        discard_output()
        sys.exit(_DONE)
    except OSError as error:
        advice = "make room, or write elsewhere" if error.errno in _NO_ROOM else "use another path"
        name = printable(error.filename or "output")
        _fail(f"{name}: {(error.strerror or str(error)).lower()}; {advice}")
    except MemoryError:
        _fail("out of memory; set --max-memory, or record fewer steps")
    sys.exit(code or _DONE)  # click returns the exit code of `capture`


def _with_help(error: click.ClickException) -> str:
    """Return an error's message, and refer to --help if it does not say what to do."""
    message = error.format_message()
    command = error.ctx and error.ctx.command_path if isinstance(error, click.UsageError) else None
    if command is None or "; " in message or message.endswith("?"):
        return message
    return f"{message.rstrip('.')}; see `{command} --help`"


def _fail(message: str, code: int = _ERROR) -> None:
    complain(message)
    sys.exit(code)

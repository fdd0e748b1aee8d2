"""`traceanalyzer doctor`: why TensorFlow sees no GPU."""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Final

import click

from traceanalyzer.cli.terminal import console, echo_json

if TYPE_CHECKING:
    from rich.console import Console

    from traceanalyzer.doctor.check import Check
    from traceanalyzer.doctor.checklist import Checkup

_MARKS: Final = {
    "ok": ("ok", "green"),
    "obstacle": ("NO", "bold red"),
    "warning": ("!!", "yellow"),
    "note": ("--", ""),
    "unknown": ("??", "yellow"),
}
_USABLE, _NOT_USABLE = 0, 1


@click.command(context_settings={"allow_interspersed_args": False})
@click.argument("script", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")
@click.option("--python", metavar="PATH", help="Interpreter to examine. Default: this one.")
@click.option("--json", "as_data", is_flag=True, help="Print JSON.")
def doctor(
    script: str | None, arguments: tuple[str, ...], *, python: str | None, as_data: bool
) -> int:
    """Find out why TensorFlow sees no GPU on this machine, and how to change that.

    Checks everything from the GPU up to TensorFlow, even if TensorFlow cannot be imported. The exit
    code is 0 if TensorFlow can use a GPU, and 1 if not.

    With SCRIPT, also checks whether the script hides GPUs: it runs until TensorFlow creates its
    devices, for 18 s at most.
    """
    from traceanalyzer.capturing.script import Program, interpreter
    from traceanalyzer.doctor.examine import Examination, examine

    words = interpreter(python)
    if script is not None:
        Program(interpreter=words, target=script, is_module=False, arguments=()).check()
    diagnosis = examine(Examination(interpreter=words, script=script, arguments=arguments))
    if as_data:
        echo_json(_as_json(diagnosis))
    else:
        with console() as screen:
            _print(diagnosis, screen)
    return _USABLE if diagnosis.usable else _NOT_USABLE


def _as_json(diagnosis: Checkup) -> dict[str, object]:
    from traceanalyzer.doctor.check import table

    first = next(iter(diagnosis.obstacles), None)
    return {
        "usable": diagnosis.usable,
        "first_obstacle": first and first.id,
        "checks": [asdict(check) for check in diagnosis.checks],
        "articles": table("articles")["article"],
    }


def _print(diagnosis: Checkup, screen: Console) -> None:
    from traceanalyzer.doctor.check import table
    from traceanalyzer.report.text import sentence

    first = next(iter(diagnosis.obstacles), None)
    if diagnosis.usable:
        _line(screen, "TensorFlow can use a GPU.", style="bold")
    elif first is None:
        _line(screen, "It is unknown whether TensorFlow can use a GPU.", style="bold")
    else:
        _line(screen, sentence(f"TensorFlow cannot use a GPU: {first.text}"), style="bold")
        _print_fix(screen, first, 2)
    for group, checks in groupby(diagnosis.checks, lambda check: check.group):
        _line(screen, f"\n{group}", style="bold")
        for check in checks:
            mark, style = _MARKS[check.status]
            _line(screen, f"{mark}  {sentence(check.text)}", 2, style)
            _line(screen, f"found by: {check.how}", 6, "dim")
            if check is not first:
                _print_fix(screen, check, 6)
    if not diagnosis.usable:
        _line(screen, "\nWhat articles advise", style="bold")
        for article in table("articles")["article"]:
            _line(screen, f"{article['advice']}: {article['verdict']}", 2)


def _print_fix(screen: Console, check: Check, indent: int) -> None:
    from traceanalyzer.report.text import sentence

    if check.fix:
        _line(screen, sentence(check.fix), indent)
        _line(screen, f"$ {check.command}", indent, "bold cyan")


def _line(screen: Console, text: str, indent: int = 0, style: str = "") -> None:
    from rich.padding import Padding
    from rich.text import Text

    from traceanalyzer.report.text import visible

    blank, words = text.startswith("\n"), Text(visible(text.lstrip("\n")), style)
    screen.print(*[""] * blank, Padding(words, (0, 0, 0, indent)), sep="\n")

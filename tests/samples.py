"""Makes `reports/`: what the tool says of each sample trace.

Run as `python -m tests.samples`, from the folder of the repository; with `--picture` it also takes
the README's picture anew, for which it needs a Chromium.
"""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from traceanalyzer.cli import cli

__all__ = ["CASES", "COMMAND", "FILES", "PICTURE", "REPORTS", "Case", "main"]

COMMAND = "python -m tests.samples"
FILES = ("report.html", "report.json")

_ROOT = Path(__file__).resolve().parents[1]
_SAMPLES = _ROOT / "sample_traces"
REPORTS = _ROOT / "reports"
PICTURE = REPORTS / "keras_fit" / "report.png"


@dataclass(frozen=True)
class Case:
    """One folder of `sample_traces/`."""

    name: str

    @property
    def logs(self) -> Path:
        """The log directory that was recorded."""
        return _SAMPLES / self.name / "logs"

    @property
    def program(self) -> Path:
        """The program that was recorded."""
        return _SAMPLES / self.name / "program.py"

    def expected(self) -> dict[str, Any]:
        """What must be found in it, by its `case.toml`."""
        text = (_SAMPLES / self.name / "case.toml").read_text(encoding="utf-8")
        expected: dict[str, Any] = tomllib.loads(text)["expect"]
        return expected

    def write(self, folder: Path) -> None:
        """Report on it as the command line does."""
        folder.mkdir(parents=True, exist_ok=True)
        page, data = (str(folder / file) for file in FILES)
        arguments = ["report", str(self.logs), "-o", page, "--json", data]
        cli.main(args=arguments, prog_name="traceanalyzer", standalone_mode=False)


CASES = [Case(file.parent.name) for file in sorted(_SAMPLES.glob("*/case.toml"))]


def take_picture() -> None:
    """Take a picture of the top of a page, down to the table of findings."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        msg = "there is no chromium on PATH"
        raise click.ClickException(msg)
    subprocess.run(
        [
            browser,
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            *("--hide-scrollbars", "--force-device-scale-factor=1.5", "--window-size=1100,1240"),
            f"--screenshot={PICTURE}",
            PICTURE.with_name("report.html").as_uri(),
        ],
        stderr=subprocess.DEVNULL,
        check=True,
    )


@click.command(help=__doc__)
@click.option("--picture", is_flag=True, help="Take the README's picture too.")
def main(*, picture: bool) -> None:
    """Write every report anew."""
    for case in CASES:
        click.secho(case.name, bold=True)
        case.write(REPORTS / case.name)
    if picture:
        take_picture()


if __name__ == "__main__":
    main()

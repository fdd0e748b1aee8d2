"""Makes `reports/`: what the tool says of each sample trace.

Run as `python -m tests.samples`, from the folder of the repository; with `--pictures` it also takes
their pictures anew, for which it needs a Chromium.
"""

import tempfile
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import click

import traceanalyzer as ta
from traceanalyzer.cli import cli
from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.model import Report
from traceanalyzer.report.assemble import assemble

COMMAND = "python -m tests.samples"
FILES = ("report.html", "report.json")

_ROOT = Path(__file__).resolve().parents[1]
_SAMPLES = _ROOT / "sample_traces"
REPORTS = _ROOT / "reports"
PICTURED = ("keras_fit", "recommender")
KINDS = {"C": "keras_fit", "D": "recommender"}  # `tests.page_kinds` has the other kinds of page
PICTURE = REPORTS / "recommender" / "report.png"


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
SAMPLES = [case.name for case in CASES]


@cache
def sample(name: str) -> Diagnosis:
    """Diagnose a sample trace, once for all tests of a process."""
    return ta.diagnose(ta.load(_SAMPLES / name))


@cache
def sample_report(name: str) -> Report:
    """Report on a sample trace, once for all tests of a process."""
    return assemble(sample(name))


@click.command(help=__doc__)
@click.option("--pictures", is_flag=True, help="Take the pictures too.")
def main(*, pictures: bool) -> None:
    """Write every report anew."""
    for case in CASES:
        click.secho(case.name, bold=True)
        case.write(REPORTS / case.name)
    if pictures:
        # These need Playwright; the reports do not.
        from tests.page_kinds import write_pages  # noqa: PLC0415
        from tests.pictures import take, take_kinds  # noqa: PLC0415

        for name in PICTURED:
            take(REPORTS / name / "report.html", REPORTS / name)
        with tempfile.TemporaryDirectory() as folder:
            pages = {kind: REPORTS / name / "report.html" for kind, name in KINDS.items()}
            pages |= write_pages(Path(folder))
            take_kinds(dict(sorted(pages.items())), REPORTS / "kinds")


if __name__ == "__main__":
    main()

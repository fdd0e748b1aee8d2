"""What README and CONTRIBUTING say is so."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

import traceanalyzer as ta
from tests.architecture.toolchain import ROOT
from traceanalyzer.cli import cli

README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def rows(text: str, heading: str) -> list[str]:
    """The first cell of each row of the table under a heading."""
    section = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (.*?) \|", section, re.MULTILINE)
    return [cell for cell in cells[1:] if not cell.startswith("---")]


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README + CONTRIBUTING)
    assert links
    assert not [link for link in links if "//" not in link and not (ROOT / link).exists()]


def test_is_short() -> None:
    assert README.count("\n") <= 150


def test_its_tour_shows_what_the_tool_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for block in blocks("console"):
        command, *shown = block.splitlines()
        _, _, words = command.partition("traceanalyzer ")
        printed = CliRunner(env={"COLUMNS": None}).invoke(cli, shlex.split(words)).output
        for line in shown:
            for part in filter(None, (part.strip(" (),") for part in line.split("..."))):
                assert part in printed


def test_lists_the_commands() -> None:
    named = [re.search(r"traceanalyzer (\w+)", row) for row in rows(README, "Commands")]
    assert {found[1] for found in named if found} == set(cli.commands)


def test_lists_the_options() -> None:
    for row in rows(README, "Commands"):
        found = re.search(r"traceanalyzer (\w+)", row)
        assert found
        options = {name for parameter in cli.commands[found[1]].params for name in parameter.opts}
        assert set(re.findall(r"(?<![\w-])--?[\w-]+", row)) <= options


def test_lists_the_modules() -> None:
    named = re.findall(r"`([\w/]+)`", "\n".join(rows(CONTRIBUTING, "Map of the modules")))
    there = {file.stem for file in (ROOT / "traceanalyzer").glob("*.py")} | {
        f"{file.parent.name}/" for file in (ROOT / "traceanalyzer").glob("*/__init__.py")
    }
    assert set(named) == there - {"__init__", "__main__"}


def test_the_path_of_an_op_is_short_and_leads_along_modules_that_exist() -> None:
    section = CONTRIBUTING.partition("## Follow one op")[2].partition("\n## ")[0]
    modules = re.findall(r"`(\w+(?:/\w+)*)`", section.partition("| --- |")[2])
    assert 15 <= len(modules) <= 25
    assert not [m for m in modules if not (ROOT / "traceanalyzer" / f"{m}.py").exists()]


def test_runs_as_a_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "sample_traces" / "tf_function" / "logs", tmp_path / "logs")
    monkeypatch.chdir(tmp_path)
    in_a_program, code = blocks("python")
    compile(in_a_program, "README.md", "exec")
    assert all(hasattr(ta, name) for name in re.findall(r"ta\.(\w+)", in_a_program + code))
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert (tmp_path / "report.json").stat().st_size > 1000


def test_its_test_command_is_what_ci_runs() -> None:
    _, tests, *_ = blocks("sh")
    script = (ROOT / ".ci" / "run").read_text()
    found = re.search(r"awk '.*?' README\.md", script, re.DOTALL)
    assert found
    bash = shutil.which("bash")
    assert bash is not None
    extracted = subprocess.run(
        [bash, "-c", found[0]], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert extracted == tests
    assert "pytest" in tests

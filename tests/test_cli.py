"""The command line: exit codes, one line for each failure, and what is written or is not."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pandas as pd
import pytest
from click.testing import CliRunner

import traceanalyzer
from tests.samples import Case
from tests.traces import eager, event, gpu, host, kernel, line, op, stream, us, write, xspace
from traceanalyzer.cli import cli, main
from traceanalyzer.tables.schema import SCHEMAS

LOGS = Case("tf_function").logs
COMMANDS = sorted(cli.commands)
Traceanalyzer = Callable[..., "Done"]
READERS = [
    ("report",),
    ("analyze",),
    ("tables", "-o", "tables"),
    ("export", "--transfer-graph", "-o", "graph.json"),
]


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def traceanalyzer_(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Traceanalyzer:
    """Run the command line in this process, in an empty folder of its own."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def run(*arguments: str | Path) -> Done:
        capfd.readouterr()
        with pytest.raises(SystemExit) as exit_:
            main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        assert isinstance(exit_.value.code, int)
        return Done(exit_.value.code, out, err)

    return run


def small_trace(hostname: str = "host0") -> object:
    return xspace(
        host(
            line("python")(
                event("train", us(0, 100), step_num=7)(
                    op("dense/MatMul", "MatMul", us(10, 5)), eager("Unique", us(20, 8))
                )
            )
        ),
        gpu(0)(stream(13, "Compute")(kernel("gemm", us(12, 3), op="dense/MatMul:MatMul"))),
        hostname=hostname,
    )


def files_below(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(file.relative_to(folder)): (file.stat().st_size, file.stat().st_mtime_ns)
        for file in folder.rglob("*")
    }


def test_report_writes_the_page_the_data_and_markdown(
    traceanalyzer_: Traceanalyzer, tmp_path: Path
) -> None:
    page, data, review = (tmp_path / name for name in ("page.html", "data.json", "review.md"))
    done = traceanalyzer_("report", LOGS, "-o", page, "--json", data, "--markdown", review)
    assert (done.code, done.err) == (0, "")
    happened, first_change, *wrote = done.out.splitlines()
    document = json.loads(data.read_text())
    assert f"{happened} {first_change}" == document["summary"]["verdict"]
    assert first_change.startswith("Do this next: ")
    assert wrote == [f"wrote {page}", f"wrote {data}", f"wrote {review}"]
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert "## What to change" in review.read_text()
    again = traceanalyzer_("report", LOGS, "-o", page)
    assert again.code == 0
    assert again.err == f"traceanalyzer: replaced {page}, written earlier\n"


@pytest.mark.parametrize("command", ["report", "analyze", "tables"])
def test_writes_nothing_where_it_reads(
    traceanalyzer_: Traceanalyzer, tmp_path: Path, command: str
) -> None:
    logs = write(tmp_path / "logs", small_trace())
    before = files_below(logs)
    more = ("-o", "tables") if command == "tables" else ()
    assert traceanalyzer_(command, logs, *more).code == 0
    assert files_below(logs) == before


@pytest.fixture
def two_runs(tmp_path: Path) -> Path:
    write(tmp_path / "logs", small_trace(), run="2026_01_01_00_00_00")
    return write(tmp_path / "logs", small_trace(), run="2026_02_01_00_00_00")


def test_takes_the_newest_run_or_the_one_that_is_asked_for(
    traceanalyzer_: Traceanalyzer, two_runs: Path, tmp_path: Path
) -> None:
    def report(*more: str | Path) -> dict[str, Any]:
        assert traceanalyzer_("report", *more, "--json", "data.json").code == 0
        found: dict[str, Any] = json.loads((tmp_path / "here" / "data.json").read_text())
        return found

    old, new = "2026_01_01_00_00_00", "2026_02_01_00_00_00"
    newest = report(two_runs)
    assert newest["run"]["name"] == new
    is_said = f"read {new}, the newest of 2 runs; --run selects another one"
    assert is_said in traceanalyzer_("analyze", two_runs).err
    assert is_said not in traceanalyzer_("analyze", two_runs, "--run", old).err
    [others] = [entry for entry in newest["health"] if entry["id"] == "other_runs"]
    assert old in others["message"]
    assert report(two_runs, "--run", old)["run"]["name"] == old
    runs = two_runs / "plugins" / "profile"
    again = report(next((runs / new).glob("*.xplane.pb")))
    assert again["run"]["name"] == new
    assert again["tables"]["ops"] == newest["tables"]["ops"]
    for command in READERS:
        assert_refused(traceanalyzer_(*command, two_runs, "--run", "yesterday"), "yesterday", new)


def as_objects(table: pd.DataFrame) -> pd.DataFrame:
    """The values alone, with one null."""
    return table.astype(object).where(table.notna(), None)


def test_tables_load_again(traceanalyzer_: Traceanalyzer, tmp_path: Path) -> None:
    logs = write(tmp_path / "logs", small_trace())
    done = traceanalyzer_("tables", logs, "-o", "some/where", "--events")
    folder = tmp_path / "here" / "some" / "where" / "run"
    assert (done.code, done.out) == (0, f"wrote {folder.relative_to(tmp_path / 'here')}\n")
    run = traceanalyzer.load(logs)
    for schema in SCHEMAS:
        table = getattr(run, schema.name)
        again = pd.read_parquet(folder / f"{schema.name}.parquet")
        pd.testing.assert_frame_equal(as_objects(again), as_objects(table))
        text = pd.read_csv(folder / f"{schema.name}.csv")
        assert list(text.columns) == list(table.columns)
        for column, declared in schema.columns.items():
            if declared not in {"text", "object"}:
                assert str(again[column].dtype) == declared
            if declared == "int64":
                assert text[column].tolist() == table[column].tolist()
    events = pd.read_parquet(folder / "events.parquet")
    assert {"train", "gemm"} <= set(events["name"])


def test_tables_of_a_run_that_cannot_be_read_do_not_stop_the_others(
    traceanalyzer_: Traceanalyzer, two_runs: Path, tmp_path: Path
) -> None:
    newest = two_runs / "plugins" / "profile" / "2026_02_01_00_00_00" / "host0.xplane.pb"
    newest.write_bytes(b"")
    done = traceanalyzer_("tables", two_runs, "-o", "tables")
    assert_refused(done, "2026_02_01_00_00_00", "0 bytes")
    assert done.out == "wrote tables/2026_01_01_00_00_00\n"
    folders = [folder.name for folder in (tmp_path / "here" / "tables").iterdir()]
    assert folders == ["2026_01_01_00_00_00"]


def assert_refused(done: Done, *words: str) -> None:
    """One line on stderr that says what is wrong, and exit code 2."""
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert done.err.startswith("traceanalyzer: ")
    for word in words:
        assert word in done.err


def sound_bytes() -> bytes:
    [file] = LOGS.glob("plugins/profile/*/*.xplane.pb")
    return file.read_bytes()


BAD_FILES: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "empty file": ("notes", bytes, "0 bytes"),
    "cut short": ("h.xplane.pb", lambda: sound_bytes()[:5000], "cut short"),
    "random bytes": ("h.xplane.pb", lambda: random.Random(7).randbytes(9999), "not a trace"),  # noqa: S311
    "text renamed": ("h.xplane.pb", lambda: b"epoch,loss\n1,0.7\n" * 99, "a text file"),
    "a picture": ("h.xplane.pb", lambda: b"\x89PNG\r\n\x1a\n" + bytes(99), "not a trace"),
}


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        *((kind, READERS[0]) for kind in BAD_FILES),
        *(("cut short", reader) for reader in READERS[1:]),
    ],
)
def test_refuses_a_bad_file(
    traceanalyzer_: Traceanalyzer, tmp_path: Path, kind: str, command: tuple[str, ...]
) -> None:
    name, content, word = BAD_FILES[kind]
    file = tmp_path / name
    file.write_bytes(content())
    assert_refused(traceanalyzer_(*command, file), name, word)
    assert not files_below(tmp_path / "here")


def test_refuses_a_path_without_a_trace(traceanalyzer_: Traceanalyzer, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    tools = tmp_path / "logs" / "plugins" / "profile" / "run"
    tools.mkdir(parents=True)
    (tools / "host0.overview_page.pb").write_bytes(b"\n\x02ab")
    (tools / "host0.kernel_stats.pb").write_bytes(b"\n\x02ab")
    for path, word in (
        ("missing", "no such file"),
        ("empty", "no trace"),
        ("logs", "overview_page"),
    ):
        assert_refused(traceanalyzer_("report", tmp_path / path), path, word)
    assert not files_below(tmp_path / "here")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("explode",), ("explode", "Did you mean")),
        (("zzz",), ("zzz", "; see `traceanalyzer --help`")),
        (("report",), ("PATH", "; see `traceanalyzer report --help`")),
        (("report", LOGS, "--frobnicate"), ("--frobnicate",)),
        (("report", LOGS, "-o", "no/such/folder/page.html"), ("no/such/folder",)),
        (("report", LOGS, "-o", "."), ("this is a folder",)),
        (("report", LOGS, "-o", "/dev/full"), ("/dev/full", "no space", "write elsewhere")),
        (("report", LOGS, "--max-memory", "1k"), ("record fewer steps",)),
        (("report", LOGS, "--max-memory", "a lot"), ("a lot", "500M")),
        *((("report", LOGS, f"--max-memory={size}"), (size,)) for size in ("-5", "0", "1e999")),
        (("tables", LOGS), ("-o",)),
        (("tables", LOGS, "-o", LOGS / "../program.py"), ("this is a file",)),
    ],
)
def test_refuses_bad_usage(
    traceanalyzer_: Traceanalyzer,
    tmp_path: Path,
    arguments: tuple[str | Path, ...],
    words: tuple[str, ...],
) -> None:
    assert_refused(traceanalyzer_(*arguments), *words)
    assert not files_below(tmp_path / "here")


def test_leaves_no_part_of_a_file_where_writing_fails(
    traceanalyzer_: Traceanalyzer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    assert_refused(traceanalyzer_("report", LOGS), "no space left")
    assert_refused(traceanalyzer_("tables", LOGS, "-o", "tables"), "no space left")
    assert not [name for name in files_below(tmp_path / "here") if "." in name]


def test_lines_are_wrapped_only_where_a_terminal_reads(
    traceanalyzer_: Traceanalyzer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert max(map(len, traceanalyzer_("analyze", LOGS).out.splitlines())) > 120

    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, traceanalyzer_("analyze", LOGS).out.splitlines())) <= 80


def test_a_dash_is_standard_output(traceanalyzer_: Traceanalyzer, tmp_path: Path) -> None:
    page = traceanalyzer_("report", LOGS, "-o", "-")
    assert page.code == 0
    assert page.out.startswith("<!DOCTYPE html>")
    data = traceanalyzer_("report", LOGS, "--json", "-")
    assert data.err.replace("\n", " ").strip() == json.loads(data.out)["summary"]["verdict"]
    assert traceanalyzer_("report", LOGS, "--markdown", "-").out.startswith("# ")
    for two in (("-o", "--json"), ("--markdown", "--json")):
        done = traceanalyzer_("report", LOGS, two[0], "-", two[1], "-")
        assert_refused(done, "only one output can be standard output")
    assert_refused(traceanalyzer_("tables", LOGS, "-o", "-"), "folder")
    assert_refused(traceanalyzer_("capture", "--report", "-", "x.py"), "--report")
    assert not files_below(tmp_path / "here")


def test_says_that_a_capture_file_cannot_be_read(
    traceanalyzer_: Traceanalyzer, tmp_path: Path
) -> None:
    logs = write(tmp_path / "logs", small_trace(), host="host")
    (logs / "plugins/profile/run/host.placement.json.gz").write_bytes(b"\x1f\x8bcut")
    done = traceanalyzer_("analyze", logs)
    assert done.code == 0
    assert "host.placement.json.gz" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("reader", READERS)
def test_names_that_are_no_utf8_are_escaped(
    traceanalyzer_: Traceanalyzer, tmp_path: Path, reader: tuple[str, ...]
) -> None:
    write(tmp_path / "logs", small_trace(), run="r\udce9n", host="h\udce9st")
    command, *options = reader
    done = traceanalyzer_(command, tmp_path / "logs", *options)
    assert (done.code, done.err) == (0, "")


def test_every_command_and_option_is_explained() -> None:
    for option in ("--help", "-h"):
        done = CliRunner().invoke(cli, [option])
        assert done.exit_code == 0
        assert all(name in done.output for name in COMMANDS)
    for command in cli.commands.values():
        assert command.help
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{command.name} {parameter.opts}"


def process(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "traceanalyzer", *map(str, arguments)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_process_ends_like_the_function(tmp_path: Path) -> None:
    done = process("--version", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"traceanalyzer {traceanalyzer.__version__}\n")
    done = process("report", "missing", folder=tmp_path)
    assert_refused(Done(done.returncode, done.stdout, done.stderr), "missing", "check the path")
    assert done.stdout == ""
    assert not files_below(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("words", "code"), [(["analyze", str(LOGS)], 0), (["doctor"], 1)])
def test_a_reader_that_goes_away_does_not_change_the_exit_code(
    words: list[str], code: int, tmp_path: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "traceanalyzer", *words],
        cwd=tmp_path,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "-1"},  # so that the doctor finds no GPU
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == code


TRACE = next(LOGS.rglob("*.xplane.pb"))


def test_a_report_is_not_written_over_the_trace(
    traceanalyzer_: Traceanalyzer, tmp_path: Path
) -> None:
    trace = tmp_path / "h.xplane.pb"
    trace.write_bytes(TRACE.read_bytes())
    link = tmp_path / "link.html"
    link.symlink_to(trace)

    for output in (trace, link):
        assert_refused(traceanalyzer_("report", trace, "-o", output), "an input file")
    assert trace.read_bytes() == TRACE.read_bytes()

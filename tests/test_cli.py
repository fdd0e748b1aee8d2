"""The command line: exit codes, one line for each failure, and what is written or is not."""

from __future__ import annotations

import gzip
import json
import os
import random
import stat
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Protocol

import click
import pandas as pd
import pytest
from click.testing import CliRunner

import traceanalyzer
from tests.samples import Case
from tests.traces import eager, event, gpu, host, kernel, line, op, stream, us, write, xspace
from traceanalyzer.cli import cli, main
from traceanalyzer.tables.schema import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOGS = Case("tf_function").logs
SCHEMA_OF = {schema.name: schema for schema in SCHEMAS}
COMMANDS = sorted(cli.commands)
READERS = [
    ("report",),
    ("analyze",),
    ("tables", "-o", "tables"),
    ("export", "--copy-graph", "-o", "graph.json"),
]


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


class Traceanalyzer(Protocol):
    def __call__(self, *arguments: str | Path) -> Done: ...


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


# ---------------------------------------------------------------------------- commands


def test_report_writes_the_page_and_the_data(traceanalyzer_: Traceanalyzer, tmp_path: Path) -> None:
    page, data = tmp_path / "page.html", tmp_path / "data.json"
    done = traceanalyzer_("report", LOGS, "-o", page, "--json", data)
    assert (done.code, done.err) == (0, "")
    verdict, *wrote = done.out.splitlines()
    document = json.loads(data.read_text())
    assert verdict == document["summary"]["verdict"]
    assert wrote == [f"wrote {page}", f"wrote {data}"]
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_report_names_its_page_itself(traceanalyzer_: Traceanalyzer, tmp_path: Path) -> None:
    assert traceanalyzer_("report", LOGS).code == 0
    assert list(files_below(tmp_path / "here")) == ["traceanalyzer-report.html"]


def test_report_writes_data_alone(traceanalyzer_: Traceanalyzer, tmp_path: Path) -> None:
    assert traceanalyzer_("report", LOGS, "--json", "data.json").code == 0
    assert list(files_below(tmp_path / "here")) == ["data.json"]


def test_files_are_as_readable_as_others(traceanalyzer_: Traceanalyzer, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        traceanalyzer_("report", LOGS)
    finally:
        os.umask(before)
    page = tmp_path / "here" / "traceanalyzer-report.html"
    assert stat.S_IMODE(page.stat().st_mode) == 0o640


def test_report_replaces_an_older_one(traceanalyzer_: Traceanalyzer, tmp_path: Path) -> None:
    page = tmp_path / "here" / "page.html"
    page.write_text("old")
    assert traceanalyzer_("report", LOGS, "-o", page).code == 0
    assert len(page.read_text()) > 10_000
    assert list(files_below(tmp_path / "here")) == ["page.html"]


@pytest.mark.parametrize("command", ["report", "analyze", "tables"])
def test_writes_nothing_where_it_reads(
    traceanalyzer_: Traceanalyzer, tmp_path: Path, command: str
) -> None:
    logs = write(tmp_path / "logs", small_trace())
    before = files_below(logs)
    more = ("-o", "tables") if command == "tables" else ()
    assert traceanalyzer_(command, logs, *more).code == 0
    assert files_below(logs) == before


def test_analyze_prints(traceanalyzer_: Traceanalyzer, tmp_path: Path) -> None:
    done = traceanalyzer_("analyze", LOGS)
    assert (done.code, done.err) == (0, "")
    assert "TensorFlow used no GPU" in " ".join(done.out.split())
    assert not files_below(tmp_path / "here")


def test_every_kind_of_path_is_the_same_run(traceanalyzer_: Traceanalyzer, tmp_path: Path) -> None:
    run = next((LOGS / "plugins" / "profile").iterdir())
    found = []
    for path in (LOGS, LOGS / "plugins", run.parent, run, next(run.glob("*.xplane.pb"))):
        assert traceanalyzer_("report", path, "--json", "data.json").code == 0
        document = json.loads((tmp_path / "here" / "data.json").read_text())
        found.append((document["summary"], document["findings"], document["tables"]["ops"]))
    assert all(one == found[0] for one in found[1:])


@pytest.fixture
def two_runs(tmp_path: Path) -> Path:
    write(tmp_path / "logs", small_trace(), run="2026_01_01_00_00_00")
    return write(tmp_path / "logs", small_trace(), run="2026_02_01_00_00_00")


def test_takes_the_newest_run_and_names_the_others(
    traceanalyzer_: Traceanalyzer, two_runs: Path, tmp_path: Path
) -> None:
    assert traceanalyzer_("report", two_runs, "--json", "data.json").code == 0
    document = json.loads((tmp_path / "here" / "data.json").read_text())
    assert document["run"]["name"] == "2026_02_01_00_00_00"
    [others] = [entry for entry in document["health"] if entry["id"] == "other_runs"]
    assert "2026_01_01_00_00_00" in others["message"]


def test_takes_the_run_that_is_asked_for(
    traceanalyzer_: Traceanalyzer, two_runs: Path, tmp_path: Path
) -> None:
    name = "2026_01_01_00_00_00"
    assert traceanalyzer_("report", two_runs, "--run", name, "--json", "data.json").code == 0
    document = json.loads((tmp_path / "here" / "data.json").read_text())
    assert document["run"]["name"] == name


@pytest.mark.parametrize("command", READERS)
def test_refuses_a_run_that_is_not_there(
    traceanalyzer_: Traceanalyzer, two_runs: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    done = traceanalyzer_(*command, two_runs, "--run", "yesterday")
    assert_refused(done, "yesterday", "2026_02_01_00_00_00")
    assert not files_below(tmp_path / "here")


# ---------------------------------------------------------------------------- tables


def as_objects(table: pd.DataFrame) -> pd.DataFrame:
    """The values alone, with one null."""
    return table.astype(object).where(table.notna(), None)


def test_tables_load_again(traceanalyzer_: Traceanalyzer, tmp_path: Path) -> None:
    logs = write(tmp_path / "logs", small_trace())
    done = traceanalyzer_("tables", logs, "-o", "some/where", "--events")
    folder = tmp_path / "here" / "some" / "where" / "run"
    assert (done.code, done.out) == (0, f"wrote {folder.relative_to(tmp_path / 'here')}\n")
    run = traceanalyzer.load(logs)
    expected = {name: getattr(run, name) for name in SCHEMA_OF}
    for name, table in expected.items():
        again = pd.read_parquet(folder / f"{name}.parquet")
        pd.testing.assert_frame_equal(as_objects(again), as_objects(table))
        text = pd.read_csv(folder / f"{name}.csv")
        assert list(text.columns) == list(table.columns)
        assert len(text) == len(table)
        for column, declared in SCHEMA_OF[name].columns.items():
            if declared.dtype == "text":
                assert isinstance(again[column].dtype, pd.CategoricalDtype)
            elif declared.dtype != "object":
                assert str(again[column].dtype) == declared.dtype
            if declared.dtype == "int64":
                assert text[column].tolist() == table[column].tolist()
    events = pd.read_parquet(folder / "events.parquet")
    assert {"train", "gemm"} <= set(events["name"])
    written = {file.name for file in folder.iterdir()}
    assert written == {f"{name}.{ending}" for name in expected for ending in ("parquet", "csv")} | {
        "events.parquet"
    }


def test_tables_make_a_folder_for_each_run(
    traceanalyzer_: Traceanalyzer, two_runs: Path, tmp_path: Path
) -> None:
    assert traceanalyzer_("tables", two_runs, "-o", "tables").code == 0
    folders = sorted(folder.name for folder in (tmp_path / "here" / "tables").iterdir())
    assert folders == ["2026_01_01_00_00_00", "2026_02_01_00_00_00"]


def test_tables_replace_older_ones(traceanalyzer_: Traceanalyzer, tmp_path: Path) -> None:
    logs = write(tmp_path / "logs", small_trace())
    for _ in range(2):
        assert traceanalyzer_("tables", logs, "-o", "tables").code == 0
    assert [folder.name for folder in (tmp_path / "here" / "tables").iterdir()] == ["run"]


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


# ---------------------------------------------------------------------------- bad input


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


def bomb() -> bytes:
    """A sound trace with hundreds of megabytes of an unknown field behind it."""
    zeros = bytes(300 << 20)
    size = len(zeros)
    length = bytes(0x80 | size >> shift & 0x7F for shift in (0, 7, 14, 21)) + bytes([size >> 28])
    return gzip.compress(sound_bytes() + b"\x7a" + length + zeros, 9)


BAD_FILES: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "empty file": ("notes", bytes, "0 bytes"),
    "xplane of 0 bytes": ("h.xplane.pb", bytes, "2 GiB"),
    "cut short": ("h.xplane.pb", lambda: sound_bytes()[:5000], "cut short"),
    "cut short after a few bytes": ("h.xplane.pb", lambda: sound_bytes()[:7], "cut short"),
    "gzip cut short": (
        "h.xplane.pb.gz",
        lambda: gzip.compress(sound_bytes())[:2000],
        "cut short",
    ),
    "random bytes": ("h.xplane.pb", lambda: random.Random(7).randbytes(9999), "not a trace"),  # noqa: S311
    "zeros": ("h.xplane.pb", lambda: bytes(9999), "zero bytes"),
    "gzip bomb": ("h.xplane.pb.gz", bomb, "gzip bomb"),
    "text renamed": ("h.xplane.pb", lambda: b"epoch,loss\n1,0.7\n" * 99, "a text file"),
    "text renamed, gzip": (
        "h.trace.json.gz",
        lambda: gzip.compress(b"epoch,loss\n1,0.7\n" * 99),
        "a text file",
    ),
    "a picture": ("h.xplane.pb", lambda: b"\x89PNG\r\n\x1a\n" + bytes(99), "a picture"),
}


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("kind", BAD_FILES)
def test_refuses_a_bad_file(
    traceanalyzer_: Traceanalyzer, tmp_path: Path, command: tuple[str, ...], kind: str
) -> None:
    name, content, word = BAD_FILES[kind]
    file = tmp_path / name
    file.write_bytes(content())
    assert_refused(traceanalyzer_(*command, file), name, word)
    assert not files_below(tmp_path / "here")


@pytest.mark.parametrize("command", READERS)
def test_refuses_a_path_without_a_trace(
    traceanalyzer_: Traceanalyzer, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "empty").mkdir()
    tools = tmp_path / "logs" / "plugins" / "profile" / "run"
    tools.mkdir(parents=True)
    (tools / "host0.overview_page.pb").write_bytes(b"\n\x02ab")
    (tools / "host0.kernel_stats.pb").write_bytes(b"\n\x02ab")
    for path, word in (
        ("missing", "no such file"),
        ("empty", "the directory is empty"),
        ("logs", "overview_page"),
    ):
        assert_refused(traceanalyzer_(*command, tmp_path / path), path, word)
    assert not files_below(tmp_path / "here")


def test_salvages_what_precedes_damage_in_the_middle(
    traceanalyzer_: Traceanalyzer, tmp_path: Path
) -> None:
    content = bytearray(sound_bytes())
    content[len(content) // 2 : len(content) // 2 + 300] = b"\xff" * 300
    file = tmp_path / "h.xplane.pb"
    file.write_bytes(content)
    done = traceanalyzer_("report", file, "--json", "data.json")
    assert (done.code, done.err) == (0, "")
    document = json.loads((tmp_path / "here" / "data.json").read_text())
    [damaged] = [entry for entry in document["health"] if entry["id"] == "damaged"]
    assert "bytes could not be read" in damaged["message"]
    assert "events could" in damaged["message"]


def test_reports_the_other_hosts_where_one_is_bad(
    traceanalyzer_: Traceanalyzer, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    for name in ("host0", "host1"):
        write(logs, small_trace(name))
    write(logs, b"no trace at all, but text", host="host2")
    done = traceanalyzer_("report", logs, "--json", "data.json")
    assert (done.code, done.err) == (0, "")
    document = json.loads((tmp_path / "here" / "data.json").read_text())
    assert document["run"]["hosts"] == ["host0", "host1"]
    [bad] = [entry for entry in document["health"] if entry["id"] == "unreadable_host"]
    assert "host2" in bad["message"]


def test_refuses_what_needs_more_memory_than_is_allowed(
    traceanalyzer_: Traceanalyzer, tmp_path: Path
) -> None:
    done = traceanalyzer_("report", LOGS, "--max-memory", "1k")
    assert_refused(done, "record fewer steps")
    assert not files_below(tmp_path / "here")


# ---------------------------------------------------------------------------- bad usage


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("explode",), ("explode",)),
        (("report",), ("PATH",)),
        (("report", LOGS, "--frobnicate"), ("--frobnicate",)),
        (("report", LOGS, "-o", "no/such/folder/page.html"), ("no folder", "no/such/folder")),
        (("report", LOGS, "--json", "no/such/folder/data.json"), ("no folder",)),
        (("report", LOGS, "-o", "."), ("this is a folder",)),
        (("report", LOGS, "--max-memory", "a lot"), ("a lot", "500M")),
        (("tables", LOGS), ("-o",)),
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


def test_helps_where_nothing_is_asked_for(traceanalyzer_: Traceanalyzer) -> None:
    done = traceanalyzer_()
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Usage: traceanalyzer [OPTIONS] COMMAND")


def test_tables_refuse_a_file_for_a_folder(traceanalyzer_: Traceanalyzer, tmp_path: Path) -> None:
    taken = tmp_path / "here" / "taken"
    taken.write_text("mine")
    assert_refused(traceanalyzer_("tables", LOGS, "-o", taken), "this is a file")
    assert taken.read_text() == "mine"


def test_leaves_no_part_of_a_file_where_writing_fails(
    traceanalyzer_: Traceanalyzer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full)
    assert_refused(traceanalyzer_("report", LOGS), "no space left")
    assert_refused(traceanalyzer_("tables", LOGS, "-o", "tables"), "no space left")
    assert not [name for name in files_below(tmp_path / "here") if "." in name]


@pytest.mark.parametrize("option", ["-o", "--json"])
def test_a_full_disk_is_said_with_the_files_name(
    traceanalyzer_: Traceanalyzer, option: str
) -> None:
    assert_refused(
        traceanalyzer_("report", LOGS, option, "/dev/full"), "/dev/full", "no space", "make room"
    )


def test_a_dash_is_standard_output(traceanalyzer_: Traceanalyzer, tmp_path: Path) -> None:
    page = traceanalyzer_("report", LOGS, "-o", "-")
    assert page.code == 0
    assert page.out.startswith("<!DOCTYPE html>")
    data = traceanalyzer_("report", LOGS, "--json", "-")
    assert json.loads(data.out)["summary"]["verdict"] in data.err
    assert_refused(traceanalyzer_("report", LOGS, "-o", "-", "--json", "-"), "cannot be one file")
    assert_refused(traceanalyzer_("tables", LOGS, "-o", "-"), "give a folder")
    assert_refused(traceanalyzer_("capture", "--report", "-", "x.py"), "names nothing")
    assert not files_below(tmp_path / "here")


@pytest.mark.parametrize("reader", READERS)
def test_names_that_are_no_utf8_are_escaped(
    traceanalyzer_: Traceanalyzer, tmp_path: Path, reader: tuple[str, ...]
) -> None:
    write(tmp_path / "logs", small_trace(), run="r\udce9n", host="h\udce9st")
    command, *options = reader
    done = traceanalyzer_(command, tmp_path / "logs", *options)
    assert (done.code, done.err) == (0, "")


def test_nothing_is_wrapped_where_no_terminal_reads(
    traceanalyzer_: Traceanalyzer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    lines = traceanalyzer_("analyze", LOGS).out.splitlines()
    assert max(map(len, lines)) > 120
    assert not [line for line in lines if line.endswith(" ")]

    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, traceanalyzer_("analyze", LOGS).out.splitlines())) <= 80


@pytest.mark.parametrize("arguments", [(), *((command,) for command in COMMANDS)])
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_helps(arguments: tuple[str, ...], option: str) -> None:
    done = CliRunner().invoke(cli, [*arguments, option])
    assert done.exit_code == 0
    assert done.output.startswith("Usage: ")
    for command in COMMANDS if not arguments else ():
        assert command in done.output


def test_every_option_is_explained() -> None:
    for command in cli.commands.values():
        assert command.help
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{command.name} {parameter.opts}"


# ---------------------------------------------------------------------------- processes


def process(*arguments: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "traceanalyzer", *map(str, arguments)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_tells_its_version(tmp_path: Path) -> None:
    done = process("--version", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"traceanalyzer {traceanalyzer.__version__}\n")


def test_a_process_ends_like_the_function(tmp_path: Path) -> None:
    done = process("report", "missing", folder=tmp_path)
    assert_refused(Done(done.returncode, done.stdout, done.stderr), "missing", "check the path")
    assert done.stdout == ""
    done = process("report", LOGS, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "wrote traceanalyzer-report.html" in done.stdout
    assert list(files_below(tmp_path)) == ["traceanalyzer-report.html"]


def test_the_installed_command_is_this_one() -> None:
    [entry] = entry_points(group="console_scripts", name="traceanalyzer")
    assert entry.load() is main


@pytest.mark.parametrize("arguments", [("analyze", LOGS), ("report", LOGS), ("--help",)])
def test_survives_a_reader_that_goes_away(
    tmp_path: Path, arguments: tuple[str | Path, ...]
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "traceanalyzer", *map(str, arguments)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 0


# ---------------------------------------------------------------- nothing is written over

TRACE = next(LOGS.rglob("*.xplane.pb"))


def test_a_report_is_not_written_over_the_trace(
    traceanalyzer_: Traceanalyzer, tmp_path: Path
) -> None:
    trace = tmp_path / "h.xplane.pb"
    trace.write_bytes(TRACE.read_bytes())
    link = tmp_path / "link.html"
    link.symlink_to(trace)

    for output in (trace, link):
        assert_refused(traceanalyzer_("report", trace, "-o", output), "trace to be read")
    assert trace.read_bytes() == TRACE.read_bytes()


def test_a_report_goes_through_a_link_and_into_a_pipe(
    traceanalyzer_: Traceanalyzer, tmp_path: Path
) -> None:
    target, link = tmp_path / "target.html", tmp_path / "link.html"
    link.symlink_to(target)

    assert traceanalyzer_("report", LOGS, "-o", link).code == 0
    assert link.is_symlink()
    assert target.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert traceanalyzer_("report", LOGS, "-o", os.devnull).code == 0
    assert not stat.S_ISREG(os.stat(os.devnull).st_mode)  # noqa: PTH116  # the node itself


def test_page_and_json_are_two_files(traceanalyzer_: Traceanalyzer) -> None:
    assert_refused(traceanalyzer_("report", LOGS, "-o", "x", "--json", "x"), "cannot be one file")


def test_runs_of_like_names_get_folders_of_their_own(
    traceanalyzer_: Traceanalyzer, tmp_path: Path
) -> None:
    space = xspace(host(line("t")(op("a", "Neg", us(0, 5)))))
    for name in ("a b", "a_b", "..."):
        write(tmp_path / "logs", space, run=name)

    assert traceanalyzer_("tables", tmp_path / "logs", "-o", "out").code == 0
    folders = sorted(folder.name for folder in (tmp_path / "here" / "out").iterdir())
    assert folders == ["a b", "a_b", "run..."]


def test_a_size_of_copies_beyond_reason_is_unknown(
    traceanalyzer_: Traceanalyzer, tmp_path: Path
) -> None:
    for size in ("9223372036854775808", "1" * 30, "9" * 5000, "-1"):
        space = xspace(
            gpu(0)(
                stream(1, "MemcpyH2D")(
                    event("MemcpyH2D", us(0, 5), memcpy_details=f"size:{size} dest:0 async:1")
                )
            )
        )
        logs = write(tmp_path / size[:5], space)
        assert traceanalyzer_("report", logs, "--json", "r.json").code == 0
        made = json.loads((tmp_path / "here" / "r.json").read_text(encoding="utf-8"))
        assert made["copy_graph"]["devices"][0]["bytes"] is None


@pytest.mark.parametrize("size", ["-5", "0", "much", "1e999", "8X"])
def test_a_limit_that_is_no_size(traceanalyzer_: Traceanalyzer, size: str) -> None:
    assert_refused(traceanalyzer_("report", LOGS, f"--max-memory={size}"), "is no size")

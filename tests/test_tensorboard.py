"""What a capture leaves is a log directory for TensorBoard, and TensorBoard leaves it readable."""

import gzip
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.captured import PROGRAMS
from tests.emulator.captures import captured

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        any(
            importlib.util.find_spec(name) is None
            for name in ("tensorboard", "xprof", "tensorflow")
        ),
        reason="TensorBoard and its profile plugin are not installed: '.[test,tensorboard]'",
    ),
]

(PROGRAM,) = (program for program in PROGRAMS if program.name == "lookup_tables")
SUFFIX: Final = ".placement.json.gz"
BARE: Final = "without_the_capture_file"
_ADDRESS: Final = re.compile(r"http://127\.0\.0\.1:\d+/")
_START_S: Final = 120.0  # it imports TensorFlow
_ANSWER_S: Final = 60.0


@dataclass(frozen=True)
class ProfilePlugin:
    """The profile plugin of a TensorBoard that runs; its routes are in xprof/profile_plugin.py."""

    address: str

    def ask(self, route: str, **asked: str) -> Any:  # noqa: ANN401 - JSON
        """Return what it answers."""
        query = urllib.parse.urlencode(asked)
        url = f"{self.address}data/plugin/profile/{route}?{query}"
        with urllib.request.urlopen(url, timeout=_ANSWER_S) as answer:  # noqa: S310 - ours
            content = answer.read()
            if answer.headers.get("Content-Encoding") == "gzip":
                content = gzip.decompress(content)
        return json.loads(content)


@dataclass(frozen=True)
class Opened:
    """A captured directory that TensorBoard serves, and a copy of it without the capture file."""

    plugin: ProfilePlugin
    run: Path
    report_before: str

    @property
    def host(self) -> str:
        """The host that was captured."""
        (trace,) = self.run.glob("*.xplane.pb")
        return trace.name.removesuffix(".xplane.pb")


@contextmanager
def tensorboard(logdir: Path, messages: Path) -> Iterator[ProfilePlugin]:
    """Serve a log directory on a free port, as a process of its own."""
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(logdir)]
    command += ["--host", "127.0.0.1", "--port", "0"]
    with messages.open("w", encoding="utf-8") as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT
        )
    try:
        yield ProfilePlugin(_address(process, messages))
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(process: subprocess.Popen[bytes], messages: Path) -> str:
    end = time.monotonic() + _START_S
    while time.monotonic() < end and process.poll() is None:
        found = _ADDRESS.search(messages.read_text(encoding="utf-8"))
        if found:
            return found[0]
        time.sleep(0.1)
    pytest.fail(f"TensorBoard did not start:\n{messages.read_text(encoding='utf-8')}")


def report(run: Path) -> str:
    """The report, as data."""
    # Not in the run's folder: nothing but TensorBoard is to write there.
    file = run.parents[3] / "report.json"
    command = [sys.executable, "-m", "traceanalyzer", "report", str(run), "--json", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return file.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    logdir = tmp_path_factory.mktemp("tensorboard") / "logs"
    shutil.copytree(captured(PROGRAM.path, gpus=0).logdir, logdir)
    (run,) = logdir.glob("plugins/profile/*")
    assert list(run.glob("*.xplane.pb"))
    before = report(run)
    shutil.copytree(run, run.with_name(BARE), ignore=shutil.ignore_patterns("*" + SUFFIX))
    with tensorboard(logdir, logdir.with_name("said.txt")) as plugin:
        yield Opened(plugin, run, before)


def table(opened: Opened, run: str) -> list[dict[str, Any]]:
    """The rows of `framework_op_stats`; equals among them come in any order."""
    both = opened.plugin.ask("data", run=run, tag="framework_op_stats", host=opened.host)
    with_idle = both[0]
    columns = [column["id"] for column in with_idle["cols"]]
    rows = (dict(zip(columns, (c["v"] for c in r["c"]), strict=True)) for r in with_idle["rows"])
    return sorted(rows, key=lambda row: (row["type"], row["operation"]))


def events(opened: Opened, run: str, tool: str) -> list[dict[str, Any]]:
    """The events of a trace viewer with what they show; numbers of its own are left out."""
    answer = opened.plugin.ask("data", run=run, tag=tool, host=opened.host)
    shown = ("ph", "name", "pid", "tid", "ts", "dur")
    found = [{k: e[k] for k in shown if k in e} for e in answer["traceEvents"] if e]
    return sorted(found, key=lambda event: json.dumps(event, sort_keys=True))


def test_serves_the_op_table(opened: Opened) -> None:
    rows = table(opened, opened.run.name)

    assert set(PROGRAM.marks()) <= {row["type"] for row in rows}
    calls = {row["type"]: row["occurrences"] for row in rows}
    assert calls["UniqueWithCounts"] == 50  # one for each of its orders
    assert calls["LookupTableInsertV2"] == 50


def test_the_capture_file_changes_nothing(opened: Opened) -> None:
    assert list(opened.run.glob("*" + SUFFIX))
    assert not list(opened.run.with_name(BARE).glob("*" + SUFFIX))

    ask, run = opened.plugin.ask, opened.run.name
    tools = ask("run_tools", run=run)
    assert tools == ask("run_tools", run=BARE)
    for tool in tools:
        assert ask("hosts", run=run, tag=tool) == ask("hosts", run=BARE, tag=tool)
    assert table(opened, run) == table(opened, BARE)
    for tool in ("trace_viewer@", "trace_viewer"):
        assert events(opened, run, tool) == events(opened, BARE, tool)


def test_the_report_is_the_same_after_tensorboard_has_cached_its_own(opened: Opened) -> None:
    for tool in opened.plugin.ask("run_tools", run=opened.run.name):
        opened.plugin.ask("data", run=opened.run.name, tag=tool, host=opened.host)
    ours = {opened.host + suffix for suffix in (".xplane.pb", SUFFIX)}
    cached = {file.name for file in opened.run.iterdir()} - ours
    assert any(name.endswith((".pb", ".SSTABLE")) for name in cached)

    assert report(opened.run) == opened.report_before

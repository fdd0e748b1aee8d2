"""What a capture of TensorFlow leaves: the files, our lines, nothing half-written."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.capturing.running import CAPTURE, Done, Terminal, captured, finished, plain, waits_for
from traceanalyzer.capture_file.document import CaptureFile
from traceanalyzer.capture_file.files import path_beside, read
from traceanalyzer.run import load

SCRIPT = """
import os, signal, sys, time

import tensorflow as tf

@tf.function
def work(x):
    return tf.reduce_sum(tf.matmul(x, x) + 1.0)

for _ in range(50):
    work(tf.ones((64, 64)))
print("ready", flush=True)
how = sys.argv[1]
if how == "exception":
    raise ValueError("mine")
if how == "kill":  # while it wrote its trace
    os.makedirs(f"traceanalyzer-logs/.traceanalyzer-mine/plugins")
    os.kill(os.getpid(), signal.SIGKILL)
if how == "sleep":
    time.sleep(60)
"""

# TensorFlow's log, of which informational lines are not written in a capture.
LOG = re.compile(
    rb"^(?:[IWE]\d{4} |\d{4}-\d\d-\d\d .*: [IWE] |WARNING: All log messages|To enable the ).*\n",
    re.MULTILINE,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "script.py").write_text(SCRIPT)
    return tmp_path


def traces(folder: Path) -> list[Path]:
    return [*(folder / "traceanalyzer-logs").rglob("*.xplane.pb")]


def capture_file_of(folder: Path) -> CaptureFile:
    [file] = (folder / "traceanalyzer-logs").rglob("*.placement.json.gz")
    found = read(file)
    assert found is not None
    return found


def masked(done: Done, folder: Path) -> Done:
    """The same without TensorFlow's log, and without the folder that it ran in."""
    assert b"dump_graph.cc" not in done.err
    assert b"profiler_session.cc" not in done.err
    return Done(done.code, done.out, LOG.sub(b"", done.err).replace(bytes(folder), b""))


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Run the script that fails without the capture, masked."""
    folder = tmp_path_factory.mktemp("plain")
    (folder / "script.py").write_text(SCRIPT)
    return masked(plain(["script.py", "exception"], folder), folder)


def names(folder: Path) -> set[str]:
    """The kinds of files below a folder: whole ones, and whatever else is there."""
    return {
        file.name.partition(".")[2]
        for file in (folder / "traceanalyzer-logs").rglob("*")
        if file.is_file()
    }


@pytest.mark.slow
def test_a_script_that_fails_leaves_a_run_the_capture_file_and_the_page(folder: Path) -> None:
    options = ["--logdir", "my\nlogs", "--report", "my\x1b\npage.html"]
    done = captured([*options, "script.py", "exception"], folder)
    assert done.code == 1
    assert done.without_ours.err.rstrip().endswith(b"ValueError: mine")
    [trace] = (folder / "my\nlogs" / "plugins" / "profile").rglob("*.xplane.pb")
    assert re.fullmatch(r"\d{4}(_\d\d){5}", trace.parent.name)
    recorded, *answer, page = done.ours
    assert recorded.startswith("recorded ")
    assert rf"to my\nlogs/plugins/profile/{trace.parent.name}, " in recorded
    assert any("TensorFlow had no GPU: " in line for line in answer)
    assert page == r"the report: my\x1b\npage.html"
    assert (folder / "my\x1b\npage.html").stat().st_size > 10_000
    capture_file = read(path_beside(trace))
    assert capture_file is not None
    assert capture_file.complete
    assert capture_file.machine_obstacles
    [session] = capture_file.sessions
    assert session.trace == trace.name
    assert "Sum" in {*load(folder / "my\nlogs").ops["type"]}


@pytest.mark.slow
def test_a_script_that_is_killed_leaves_its_capture_file(folder: Path) -> None:
    done = captured(["--run", "mine", "script.py", "kill"], folder)
    assert done.code == -signal.SIGKILL
    assert names(folder) == {"placement.json.gz"}
    assert [file.name for file in (folder / "traceanalyzer-logs").iterdir()] == ["plugins"]
    capture_file = capture_file_of(folder)
    assert not capture_file.complete
    assert capture_file.functions
    assert "return tf.reduce_sum(tf.matmul(x, x) + 1.0)" in {f.text for f in capture_file.frames}
    killed, *_, page = done.ours
    assert killed == "no trace was recorded: the script was killed before the trace was written"
    assert page == "the report: traceanalyzer-report.html"
    ops = load(folder / "traceanalyzer-logs").ops
    # On a CPU with AVX-512, TensorFlow replaces MatMul by oneDNN's.
    assert {"Sum", "MatMul"} <= {*ops["type"].str.removeprefix("_Mkl")}
    assert {*ops["no_event"]} == {"no_trace"}


@pytest.mark.slow
def test_a_script_that_only_looks_for_a_gpu_gets_a_page_that_says_why_there_is_none(
    folder: Path,
) -> None:
    code = "import tensorflow as tf; print(tf.config.list_physical_devices('GPU'))"
    (folder / "script.py").write_text(code)
    done = captured(["--report", "page.html", "script.py"], folder)
    assert done.out == b"[]\n"
    obstacle = capture_file_of(folder).machine_obstacles[0]
    assert any(f"TensorFlow had no GPU: {obstacle.text}" in line for line in done.ours)
    assert (folder / "page.html").stat().st_size > 10_000


@pytest.mark.slow
def test_a_script_that_is_ended_from_outside_is_recorded(folder: Path) -> None:
    def meanwhile(process: subprocess.Popen[bytes]) -> None:
        waits_for(process, b"ready")
        os.kill(process.pid, signal.SIGTERM)

    options = ["--no-report", "--no-source"]
    done = captured([*options, "script.py", "sleep"], folder, meanwhile=meanwhile)
    assert done.code == -signal.SIGTERM
    assert len(traces(folder)) == 1
    capture_file = capture_file_of(folder)
    assert capture_file.complete
    assert {frame.text for frame in capture_file.frames} == {None}
    assert not (folder / "traceanalyzer-report.html").exists()


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_recorded(folder: Path) -> None:
    terminal = Terminal([*CAPTURE, "script.py", "sleep"], folder)
    terminal.shows(b"ready")
    terminal.types(b"\x03")
    assert terminal.ends() == -signal.SIGINT
    assert terminal.written.count(b"Traceback (most recent call last)") == 1
    assert b"\r\ntraceanalyzer: the report: traceanalyzer-report.html\r\n" in terminal.written
    assert (folder / "traceanalyzer-report.html").is_file()
    assert len(traces(folder)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("kilobytes", [1, 20])
def test_a_full_disk_is_not_the_scripts_trouble(
    folder: Path, kilobytes: int, without: Done
) -> None:
    """A limit on the size of files: what is written over it fails as on a full disk."""
    words = ["/bin/bash", "-c", f'ulimit -f {kilobytes}; exec "$@"', "bash"]
    # Or Python would leave the first part of what it compiles in its cache.
    compiles = {"PYTHONDONTWRITEBYTECODE": "1"}
    done = finished([*words, *CAPTURE, "script.py", "exception"], folder, **compiles)
    assert masked(done.without_ours, folder) == without
    assert names(folder) <= {"placement.json.gz"}
    assert any(
        re.match(r"no trace was recorded|the trace could not be written\b.*\.xplane\.pb\b", line)
        for line in done.ours
    )


@pytest.mark.slow
def test_a_report_that_fails_changes_nothing_else(folder: Path) -> None:
    (folder / "page.html").symlink_to("/dev/full")
    done = captured(["--report", "page.html", "script.py", "exception"], folder)
    assert done.code == 1
    assert len(traces(folder)) == 1
    assert done.ours[-1].startswith("the report could not be written: ")
    assert "; try traceanalyzer report traceanalyzer-logs/plugins/profile/" in done.ours[-1]

"""A captured script gets the signals that it would get, and ends by them as it would."""

import os
import signal
import subprocess
import time
from pathlib import Path
from textwrap import dedent

import pytest

from tests.capturing.running import CAPTURE, PLAIN, Terminal, captured, child_of, plain, waits_for

RUNS_ON = """
import time
print("ready", flush=True)
time.sleep(30)
"""

HANDLES = """
import signal, sys, time
seen = []
def handle(number, frame):
    seen.append(signal.Signals(number).name)
for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2"):
    signal.signal(getattr(signal, "SIG" + name), handle)
print("ready", flush=True)
until = time.monotonic() + 30
while not seen and time.monotonic() < until:
    time.sleep(0.02)
until = time.monotonic() + 0.5  # a second one would come at once
while time.monotonic() < until:
    time.sleep(0.02)
print(seen, flush=True)
"""


def script(folder: Path, code: str) -> str:
    (folder / "script.py").write_text(dedent(code))
    return "script.py"


@pytest.mark.parametrize("name", ["SIGTERM", pytest.param("SIGUSR1", marks=pytest.mark.slow)])
def test_a_signal_to_us_arrives_once(tmp_path: Path, name: str) -> None:
    number = signal.Signals[name]

    def meanwhile(process: subprocess.Popen[bytes]) -> None:
        waits_for(process, b"ready")
        os.kill(process.pid, number)

    done = captured([script(tmp_path, HANDLES)], tmp_path, meanwhile=meanwhile)
    assert (done.code, done.out) == (0, f"[{name!r}]\n".encode())


@pytest.mark.parametrize(
    ("name", "whom"),
    [
        ("SIGINT", "the group"),
        ("SIGTERM", "us"),
        pytest.param("SIGHUP", "the group", marks=pytest.mark.slow),
        pytest.param("SIGQUIT", "us", marks=pytest.mark.slow),
        pytest.param("SIGUSR1", "the script", marks=pytest.mark.slow),
    ],
)
def test_ends_by_the_signal_that_ends_the_script(tmp_path: Path, name: str, whom: str) -> None:
    number = signal.Signals[name]

    def meanwhile(process: subprocess.Popen[bytes]) -> None:
        waits_for(process, b"ready")
        time.sleep(0.3)  # on the line after
        if whom == "the script" and "capture" in process.args:  # type: ignore[operator]
            os.kill(child_of(process.pid, "script.py"), number)
        else:
            (os.killpg if whom == "the group" else os.kill)(process.pid, number)

    words = [script(tmp_path, RUNS_ON)]
    done = captured(words, tmp_path, meanwhile=meanwhile)
    assert done.without_ours == plain(words, tmp_path, meanwhile=meanwhile)
    assert done.code == -number
    assert done.ours


def test_the_script_ends_with_us_when_we_are_killed(tmp_path: Path) -> None:
    pids = []

    def meanwhile(process: subprocess.Popen[bytes]) -> None:
        waits_for(process, b"ready")
        pids.append(child_of(process.pid, "script.py"))
        process.kill()

    words = [script(tmp_path, RUNS_ON)]
    assert captured(words, tmp_path, meanwhile=meanwhile, TMPDIR=str(tmp_path)).code == -9
    until = time.monotonic() + 10
    while Path(f"/proc/{pids[0]}").exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert not Path(f"/proc/{pids[0]}/exe").exists()


@pytest.mark.parametrize(
    ("then", "code", "shown"),
    [("raise", -signal.SIGINT, 1), ("raise SystemExit(8)", 8, 0), ("time.sleep(30)", -2, 2)],
)
def test_ctrl_c(tmp_path: Path, then: str, code: int, shown: int) -> None:
    name = script(
        tmp_path,
        f"""
        import time
        try:
            print("ready", flush=True)
            time.sleep(30)
        except KeyboardInterrupt:
            print("cleaning", flush=True)
            {then}
        """,
    )
    for words in (CAPTURE, PLAIN):
        terminal = Terminal([*words, name], tmp_path)
        terminal.shows(b"ready")
        terminal.types(b"\x03")
        if shown == 2:
            terminal.shows(b"cleaning")
            terminal.types(b"\x03")
        assert terminal.ends() == code
        assert terminal.written.count(b"cleaning\r\n") == 1
        assert terminal.written.count(b"\r\nKeyboardInterrupt") == shown
        assert (b"traceanalyzer: " in terminal.written) == (words == CAPTURE)


@pytest.mark.slow
def test_stops_and_goes_on(tmp_path: Path) -> None:
    code = """
        import time
        print("ready", flush=True)
        for n in range(15):
            time.sleep(0.1)
        print("done")
        """
    # A shell between: the group of a session's first process is never stopped by its terminal.
    words = ["/bin/bash", "--norc", "-i"]
    terminal = Terminal(words, tmp_path, PS1="$ ")
    quoted = " ".join(f"'{word}'" for word in [*CAPTURE, script(tmp_path, code)])
    terminal.types(f"{quoted}; echo code $?\n".encode())
    terminal.shows(b"ready\r\n")
    terminal.types(b"\x1a")
    terminal.shows(b"Stopped")
    terminal.types(b"echo '<'here'>'\n")
    terminal.shows(b"<here>")
    assert b"done\r\n" not in terminal.written
    terminal.types(b"fg; echo ended $?\n")
    terminal.shows(b"ended 0")
    assert b"done\r\n" in terminal.written
    terminal.types(b"exit\n")
    terminal.ends()

"""A captured script ends, prints and behaves as one that is not captured."""

from __future__ import annotations

import fcntl
import functools
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from tests.launch.running import (
    CAPTURE,
    PLAIN,
    Done,
    Terminal,
    captured,
    child_of,
    finished,
    plain,
    waits_for,
)

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS_ON = """
import time
print("ready", flush=True)
time.sleep(30)
"""

SCRIPTS = {
    "prints": 'import sys\nprint("out")\nprint("err", file=sys.stderr)',
    "syntax error": "print('out')\nif True\n    pass",
    "exception": "def f():\n    raise ValueError('mine')\nprint('out')\nf()",
    "exception in a thread": """
        import threading
        thread = threading.Thread(target=lambda: 1 / 0)
        thread.start()
        thread.join()
        """,
    "SystemExit": "import sys\nprint('out')\nsys.exit(3)",
    "SystemExit with a text": "import sys\nsys.exit('mine')",
    "os._exit": "import os, sys\nsys.stderr.write('part')\nsys.stderr.flush()\nos._exit(5)",
    "abort": "import os\nos.abort()",
    "segmentation fault": "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)",
    "killed": "import os, signal\nprint('out', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)",
    "terminated": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "interrupted": "import os, signal\nos.kill(os.getpid(), signal.SIGINT)",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "broken pipe": "import os, signal\nos.kill(os.getpid(), signal.SIGPIPE)",
    "kills its group": """
        import os, signal
        signal.signal(signal.SIGTERM, lambda *_: print("handled", flush=True))
        os.killpg(0, signal.SIGTERM)
        """,
    "atexit": "import atexit\natexit.register(print, 'late')\n1 / 0",
    "reads stdin": "import sys\nprint(sys.stdin.read().upper())",
    "closes stderr": "import os\nos.close(2)\nprint('out')",
    "redirects stderr": """
        import os
        os.dup2(os.open("mine.log", os.O_WRONLY | os.O_CREAT), 2)
        os.write(2, b"mine")
        print(open("mine.log").read())
        """,
    "stderr to stdout": "import os, sys\nos.dup2(1, 2)\nprint('err', file=sys.stderr)",
    "any bytes": "import os\nos.write(2, bytes(range(256)) * 1000)\nos.write(2, b'no end of line')",
    "much": "import sys\nfor n in range(20000): print('line', n, file=sys.stderr)",
    "where it is": """
        import __main__, os, sys
        print(sys.argv, sys.orig_argv, sys.path, sys.flags, sys.executable, __name__, __file__)
        print(os.getcwd(), {k: v for k, v in os.environ.items() if k != "_"}, sys.warnoptions)
        print(sys.stdin.fileno(), os.isatty(0), os.isatty(1), os.isatty(2), os.getpgrp() > 0)
        print(vars(__main__).keys(), __spec__, __builtins__, sys._xoptions)
        print([s for s in range(1, 65) if __import__("signal").pthread_sigmask(0, [])])
        """,
    "subprocess": """
        import subprocess, sys
        code = "import sys; print('err', file=sys.stderr); sys.exit(4)"
        print(subprocess.run([sys.executable, "-c", code]).returncode)
        """,
    "multiprocessing": """
        import multiprocessing, sys

        def work(n):
            print("worker", file=sys.stderr)
            return n * n

        if __name__ == "__main__":
            for way in ("fork", "spawn", "forkserver"):
                with multiprocessing.get_context(way).Pool(1) as pool:
                    print(pool.map(work, range(3)))
        """,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "here").mkdir()
    return tmp_path / "here"


def script(folder: Path, code: str, name: str = "script.py") -> str:
    (folder / name).write_text(dedent(code))
    return name


def both(
    words: list[str], folder: Path, *, stdin: bytes = b"", **variables: str
) -> tuple[Done, Done]:
    """Run a script with the capture and without it; the first is the capture's, less our lines."""
    done = captured(words, folder, stdin=stdin, **variables)
    assert len(done.ours) >= 1
    return done.without_ours, plain(words, folder, stdin=stdin, **variables).with_whole_lines


@pytest.mark.parametrize("code", SCRIPTS.values(), ids=SCRIPTS)
def test_is_as_without_the_capture(folder: Path, tmp_path: Path, code: str) -> None:
    (tmp_path / "temporary").mkdir()
    words, temporary = [script(folder, code), "-x", "--", "a b"], str(tmp_path / "temporary")
    with_capture, without = both(words, folder, stdin=b"in\n", TMPDIR=temporary)
    assert with_capture == without
    # And where there was nothing to record, nothing is left.
    assert {file.name for file in folder.iterdir()} <= {words[0], "mine.log"}
    assert not [*(tmp_path / "temporary").glob("traceanalyzer-*")]


def test_runs_a_module(folder: Path) -> None:
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").touch()
    script(folder / "package", "import sys; print(sys.argv, __spec__.name)", "__main__.py")
    with_capture, without = both(["-m", "package", "--flag"], folder)
    assert with_capture == without
    assert b"package.__main__" in without.out


def test_runs_a_folder_and_a_missing_module(folder: Path) -> None:
    (folder / "program").mkdir()
    script(folder / "program", "import sys; print(sys.argv, sys.path[0])", "__main__.py")
    for words in (["program", "x"], ["-m", "no_such_module"]):
        with_capture, without = both(words, folder)
        assert with_capture == without


def test_a_sitecustomize_of_the_users_own_is_imported(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    script(tmp_path / "mine", "import sys; sys.mine = 42", "sitecustomize.py")
    name = script(folder, "import os, sys; print(sys.mine, os.environ['PYTHONPATH'], sys.path)")
    with_capture, without = both([name], folder, PYTHONPATH=str(tmp_path / "mine"))
    assert with_capture == without
    assert without.out.startswith(b"42 ")


def test_passes_interpreter_options(folder: Path) -> None:
    name = script(folder, "import sys; print(sys.flags, sys.warnoptions, sys._xoptions)")
    options = ["-X", "dev", "-O", "-Wignore::UserWarning"]
    without = finished([*PLAIN, *options, name], folder)
    by_option = captured(["--python", " ".join([*PLAIN, *options]), name], folder)
    own = finished([*PLAIN, *options, *CAPTURE[1:], name], folder)
    assert by_option.without_ours == own.without_ours == without


def test_open_descriptors_stay_open(folder: Path) -> None:
    name = script(folder, "import os; print(os.read(7, 9))")
    for words in ([*CAPTURE, name], [*PLAIN, name]):
        quoted = " ".join(f"'{word}'" for word in words)
        done = finished(["/bin/bash", "-c", f"{quoted} 7<<<passed"], folder)
        assert done.out == b"b'passed\\n'\n"


def test_stdout_and_stderr_keep_their_order(folder: Path) -> None:
    code = """
        import os
        for n in range(2000):
            os.write(1 + n % 2, b"%d\\n" % n)
        """
    name = script(folder, code)
    quoted = " ".join(f"'{word}'" for word in [*CAPTURE, name])
    done = finished(["/bin/bash", "-c", f"{quoted} >both.log 2>&1"], folder)
    assert done.code == 0
    written = (folder / "both.log").read_bytes()
    assert written.startswith(b"".join(b"%d\n" % n for n in range(2000)) + b"traceanalyzer: ")


def test_a_closed_stderr_is_closed(folder: Path) -> None:
    code = "import os\ntry: os.fstat(2)\nexcept OSError: print('closed')"
    quoted = " ".join(f"'{word}'" for word in [*CAPTURE, script(folder, code)])
    done = finished(["/bin/bash", "-c", f"{quoted} 2>&-"], folder)
    assert done == Done(0, b"closed\n", b"")


def test_a_broken_stderr_is_broken(folder: Path) -> None:
    code = """
        import os, time
        try:
            for _ in range(100):
                os.write(2, b"x" * 100_000)
                time.sleep(0.01)
        except BrokenPipeError:
            os._exit(7)
        """
    name = script(folder, code)
    with subprocess.Popen(
        [*CAPTURE, name], cwd=folder, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    ) as process:
        assert process.stderr is not None
        process.stderr.close()
        assert process.wait(30) == 7


# ---------------------------------------------------------------------------- signals

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

SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"]


@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("whom", ["us", "the group"])
def test_a_signal_arrives_once(folder: Path, name: str, whom: str) -> None:
    number = signal.Signals[name]

    def meanwhile(process: subprocess.Popen[bytes]) -> None:
        waits_for(process, b"ready")
        (os.kill if whom == "us" else os.killpg)(process.pid, number)

    done = captured([script(folder, HANDLES)], folder, meanwhile=meanwhile)
    assert (done.code, done.out) == (0, f"[{name!r}]\n".encode())


@pytest.fixture(scope="module")
def ended_by(tmp_path_factory: pytest.TempPathFactory) -> Callable[[signal.Signals], Done]:
    """Run a script without the capture until a signal ends it: once for each signal."""

    @functools.cache
    def run(number: signal.Signals) -> Done:
        def meanwhile(process: subprocess.Popen[bytes]) -> None:
            waits_for(process, b"ready")
            time.sleep(0.3)  # on the line after
            os.kill(process.pid, number)

        folder = tmp_path_factory.mktemp("ended")
        return nowhere(plain([script(folder, RUNS_ON)], folder, meanwhile=meanwhile), folder)

    return run


def nowhere(done: Done, folder: Path) -> Done:
    """The same without the folder that it ran in."""
    return Done(done.code, done.out, done.err.replace(bytes(folder), b""))


@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("whom", ["us", "the script", "the group"])
def test_ends_by_the_signal_that_ends_the_script(
    folder: Path, ended_by: Callable[[signal.Signals], Done], name: str, whom: str
) -> None:
    number = signal.Signals[name]

    def meanwhile(process: subprocess.Popen[bytes]) -> None:
        waits_for(process, b"ready")
        time.sleep(0.3)  # on the line after
        if whom == "the script":
            os.kill(child_of(process.pid, "script.py"), number)
        else:
            (os.kill if whom == "us" else os.killpg)(process.pid, number)

    done = captured([script(folder, RUNS_ON)], folder, meanwhile=meanwhile)
    assert nowhere(done.without_ours, folder) == ended_by(number)
    assert done.code == -number
    assert done.ours


def test_the_script_ends_with_us_when_we_are_killed(folder: Path, tmp_path: Path) -> None:
    pids = []

    def meanwhile(process: subprocess.Popen[bytes]) -> None:
        waits_for(process, b"ready")
        pids.append(child_of(process.pid, "script.py"))
        process.kill()

    words = [script(folder, RUNS_ON)]
    assert captured(words, folder, meanwhile=meanwhile, TMPDIR=str(tmp_path)).code == -9
    until = time.monotonic() + 10
    while Path(f"/proc/{pids[0]}").exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert not Path(f"/proc/{pids[0]}/exe").exists()


def test_leaves_no_core(folder: Path) -> None:
    name = script(folder, "import os, resource\nresource.setrlimit(4, (0, 0))\nos.abort()")
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    words = ["/bin/bash", "-c", f'ulimit -S -c {"unlimited" if hard < 0 else hard}; exec "$@"']
    done = finished([*words, "bash", *CAPTURE, name], folder)
    assert done.code == -signal.SIGABRT
    assert [file.name for file in folder.iterdir()] == [name]


# ---------------------------------------------------------------------------- at a terminal


def test_sees_the_terminal_it_would_see(folder: Path) -> None:
    code = """
        import os, sys
        print([os.isatty(n) for n in range(3)], os.get_terminal_size(), flush=True)
        print(os.get_terminal_size(2), input("name? "), sys.stdout.line_buffering)
        print("err", file=sys.stderr)
        """
    shown = []
    for words in (CAPTURE, PLAIN):
        terminal = Terminal([*words, script(folder, code)], folder)
        fcntl.ioctl(terminal.descriptor, termios.TIOCSWINSZ, struct.pack("4H", 33, 77, 0, 0))
        terminal.shows(b"name? ")
        terminal.types(b"Ada\n")
        assert terminal.ends() == 0
        shown.append(terminal.written.partition(b"traceanalyzer: ")[0])
    assert shown[0] == shown[1]
    assert b"[True, True, True]" in shown[0]
    assert b"columns=77, lines=33" in shown[0]
    assert b"Ada True\r\nerr\r\n" in shown[0]


def test_learns_of_a_new_window_size(folder: Path) -> None:
    code = """
        import os, signal, time
        signal.signal(signal.SIGWINCH, lambda *_: None)
        print("ready", flush=True)
        until = time.monotonic() + 20
        while os.get_terminal_size(2) != (99, 44) and time.monotonic() < until:
            signal.sigtimedwait([], 0.05)
        print(os.get_terminal_size(2))
        """
    terminal = Terminal([*CAPTURE, script(folder, code)], folder)
    terminal.shows(b"ready")
    fcntl.ioctl(terminal.descriptor, termios.TIOCSWINSZ, struct.pack("4H", 44, 99, 0, 0))
    assert terminal.ends() == 0
    assert b"columns=99, lines=44" in terminal.written


@pytest.mark.parametrize("words", [CAPTURE, PLAIN], ids=["captured", "plain"])
def test_ctrl_c_once(folder: Path, words: tuple[str, ...]) -> None:
    terminal = Terminal([*words, script(folder, RUNS_ON)], folder)
    terminal.shows(b"ready")
    terminal.types(b"\x03")
    assert terminal.ends() == -signal.SIGINT
    assert terminal.written.count(b"Traceback") == 1
    assert b"KeyboardInterrupt\r\n" in terminal.written
    assert (b"traceanalyzer: " in terminal.written) == (words == CAPTURE)


@pytest.mark.parametrize("words", [CAPTURE, PLAIN], ids=["captured", "plain"])
def test_ctrl_c_twice(folder: Path, words: tuple[str, ...]) -> None:
    code = """
        import time
        try:
            print("ready", flush=True)
            time.sleep(30)
        except KeyboardInterrupt:
            print("cleaning", flush=True)
            time.sleep(30)
        """
    terminal = Terminal([*words, script(folder, code)], folder)
    terminal.shows(b"ready")
    terminal.types(b"\x03")
    terminal.shows(b"cleaning")
    terminal.types(b"\x03")
    assert terminal.ends() == -signal.SIGINT
    assert terminal.written.count(b"cleaning\r\n") == 1
    assert (b"traceanalyzer: " in terminal.written) == (words == CAPTURE)


def test_ctrl_c_that_the_script_catches(folder: Path) -> None:
    code = """
        import time
        try:
            print("ready", flush=True)
            time.sleep(30)
        except KeyboardInterrupt:
            print("saved", flush=True)
            raise SystemExit(8)
        """
    terminal = Terminal([*CAPTURE, script(folder, code)], folder)
    terminal.shows(b"ready")
    terminal.types(b"\x03")
    assert terminal.ends() == 8
    assert b"saved" in terminal.written


def test_stops_and_goes_on(folder: Path) -> None:
    code = """
        import time
        print("ready", flush=True)
        for n in range(15):
            time.sleep(0.1)
        print("done")
        """
    # A shell between: the group of a session's first process is never stopped by its terminal.
    words = ["/bin/bash", "--norc", "-i"]
    terminal = Terminal(words, folder, PS1="$ ")
    quoted = " ".join(f"'{word}'" for word in [*CAPTURE, script(folder, code)])
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


def test_stops_when_the_script_stops_itself(folder: Path) -> None:
    code = """
        import os, signal
        print("ready", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
        print("done")
        """
    terminal = Terminal([*CAPTURE, script(folder, code)], folder)
    terminal.shows(b"ready")
    terminal.stops()
    os.kill(terminal.pid, signal.SIGCONT)
    assert terminal.ends() == 0
    assert b"done" in terminal.written


# ---------------------------------------------------------------------------- processes left behind


def test_waits_for_no_process_that_the_script_leaves_behind(folder: Path) -> None:
    code = """
        import subprocess, sys
        code = "import sys, time; time.sleep(3); print('late', file=sys.stderr)"
        subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        print("err", file=sys.stderr)
        """
    name = script(folder, code)
    with (folder / "err.log").open("wb") as err:
        started = time.monotonic()
        ended = subprocess.run([*CAPTURE, name], cwd=folder, stderr=err, check=False)
        took = time.monotonic() - started
    assert ended.returncode == 0
    assert took < 3
    written = (folder / "err.log").read_bytes()
    assert written.startswith(b"err\ntraceanalyzer: ")
    until = time.monotonic() + 20
    while b"late\n" not in written and time.monotonic() < until:
        time.sleep(0.1)
        written = (folder / "err.log").read_bytes()
    assert written.endswith(b"late\n")


def test_waits_for_no_process_that_goes_on_writing(folder: Path) -> None:
    writing = "while not os.path.exists('stop') and time.monotonic() < end: os.write(2, b'x')"
    code = f"""
        import subprocess, sys, time
        code = "import os, time; end = time.monotonic() + 60\\n{writing}; time.sleep(0.01)"
        subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
        time.sleep(0.5)
        """
    name = script(folder, code)
    log = folder / "err.log"
    with log.open("wb") as err:
        subprocess.run([*CAPTURE, name], cwd=folder, stderr=err, check=True)
    before, until = log.stat().st_size, time.monotonic() + 20
    while log.stat().st_size == before and time.monotonic() < until:
        time.sleep(0.1)
    (folder / "stop").touch()
    assert log.stat().st_size > before


# ---------------------------------------------------------------------------- without a recorder


@pytest.mark.parametrize("option", ["-I", "-E", "-S", "-OS"])
def test_runs_where_options_keep_the_recorder_out(folder: Path, option: str) -> None:
    name = script(folder, "import os, sys; print(sys.flags, sorted(os.environ))")
    done = captured(["--python", f"{sys.executable} {option}", name], folder)
    assert done.without_ours == finished([*PLAIN, option, name], folder)
    [line] = done.ours
    assert line.startswith(f"-{option[-1]} ")
    assert line.endswith("nothing was recorded")


ENDED_EARLY = "the script ended before it had imported TensorFlow: nothing was recorded"


def test_tells_that_there_was_no_tensorflow(folder: Path) -> None:
    done = captured([script(folder, "print(1)")], folder)
    assert done.ours == ["the script did not import TensorFlow: nothing was recorded"]


PROCESSES = """
import multiprocessing, sys

def work():
    import tensorflow as tf
    print(tf.function(lambda x: x + 1)(tf.constant(1)).numpy(), flush=True)

if __name__ == "__main__":
    process = multiprocessing.get_context(sys.argv[1]).Process(target=work)
    process.start()
    process.join()
"""


@pytest.mark.parametrize("way", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_a_process_that_the_script_starts_runs_as_without_us(folder: Path, way: str) -> None:
    done = captured([script(folder, PROCESSES), way], folder)
    assert (done.code, done.out) == (0, b"2\n")
    assert any("processes that the program started" in line for line in done.ours)
    assert "nothing was recorded" in done.ours[-1]
    assert {file.name for file in folder.iterdir()} == {"script.py"}


@pytest.mark.parametrize(
    "ends",
    ["import sys; sys.exit(3)", "1 / 0", "if", "import os; os.kill(os.getpid(), 15)"],
)
def test_a_script_that_ended_early_might_have_imported_tensorflow(folder: Path, ends: str) -> None:
    done = captured([script(folder, f"{ends}\nimport tensorflow")], folder)
    assert done.code != 0
    assert done.ours == [ENDED_EARLY]


def test_a_script_that_was_killed_in_the_import_of_tensorflow(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "slow" / "tensorflow").mkdir(parents=True)
    code = "import os; os.kill(os.getpid(), 9)"
    script(tmp_path / "slow" / "tensorflow", code, "__init__.py")
    name = script(folder, "import tensorflow")
    done = captured([name], folder, PYTHONPATH=str(tmp_path / "slow"))
    assert (done.code, done.ours) == (-9, [ENDED_EARLY])


def test_a_module_that_is_missing_has_not_failed_to_import_tensorflow(folder: Path) -> None:
    assert captured(["-m", "no_such_module"], folder).ours == [ENDED_EARLY]


def test_tells_that_there_is_no_tensorflow(folder: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    name = script(folder, "import tensorflow")
    done = captured(["--python", str(bare / "bin" / "python"), name], folder)
    assert done.without_ours == finished([str(bare / "bin" / "python"), name], folder)
    [line] = done.ours
    assert line.startswith("TensorFlow is not installed for ")
    assert line.endswith(": nothing was recorded")


def test_a_tensorflow_that_is_too_old_is_none(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "old" / "tensorflow").mkdir(parents=True)
    script(tmp_path / "old" / "tensorflow", "__version__ = '2.11.0'", "__init__.py")
    name = script(folder, "import tensorflow; print(tensorflow.__version__)")
    with_capture, without = both([name], folder, PYTHONPATH=str(tmp_path / "old"))
    assert with_capture == without
    done = captured([name], folder, PYTHONPATH=str(tmp_path / "old"))
    assert [line for line in done.ours if "2.11.0 is older than 2.12" in line]
    assert done.ours[-1].endswith("nothing was recorded")


# ---------------------------------------------------------------------------- refused early


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["missing.py"], "missing.py: no such file or directory; name a Python script"),
        (["folder"], "folder: this is a folder without __main__.py; name a Python script"),
        (["--python", "no-such-python", "script.py"], "--python no-such-python: there is no such"),
        (["--python", "script.py", "script.py"], "--python script.py: "),
        (["--python", "./script.py", "script.py"], "--python ./script.py: this cannot be executed"),
        (["--python", "'", "script.py"], "--python ': no closing quotation"),
        (["--python", "", "script.py"], "--python: name an interpreter"),
        (["--logdir", "script.py/logs", "script.py"], "script.py/logs: nothing can be written"),
        (["--run", "a/b", "script.py"], "--run 'a/b': this cannot name a folder"),
        (["--logdir", "", "script.py"], "Invalid value for '--logdir': '' names nothing"),
        (["--logdir", " ", "script.py"], "Invalid value for '--logdir': ' ' names nothing"),
        (["--report", "", "script.py"], "Invalid value for '--report': '' names nothing"),
        (["--run", "", "script.py"], "--run '': this cannot name a folder"),
        (["--run", " ", "script.py"], "--run ' ': this cannot name a folder"),
        (["--run", "..", "script.py"], "--run '..': this cannot name a folder"),
        (["--run", "old", "script.py"], "--run old: "),
        (["--steps", "5:2", "script.py"], "Invalid value for '--steps': '5:2' is no range"),
        (
            ["--steps", "0:1", "script.py"],
            "Invalid value for '--steps': '0:1' is no range of steps",
        ),
        (["--steps", f"1:{'9' * 5000}", "script.py"], "Invalid value for '--steps': '1:999"),
        (["--for", "0s", "script.py"], "Invalid value for '--for': '0s' leaves nothing to record"),
        (["--for", "-1s", "script.py"], "Invalid value for '--for': '-1s' is no time"),
        (["--for", "9" * 400, "script.py"], "Invalid value for '--for': '999"),
        (["--after", "-1", "script.py"], "Invalid value for '--after': '-1' is no time"),
        (["--after", "soon", "script.py"], "Invalid value for '--after': 'soon' is no time"),
        (["--steps", "1:2", "--for", "3", "script.py"], "--steps and --after or --for exclude"),
        (["--report", "none/page.html", "script.py"], "none/page.html: there is no folder none"),
        (["--report", "folder", "script.py"], "folder: this is a folder; give the name of a file"),
        (["--report", "./script.py", "script.py"], "script.py: this is the script; name another"),
        (["--report", "link.html", "script.py"], "link.html: this is the script; name another"),
        (["--report", "script.py", "-m", "script"], "script.py: this is the script; name another"),
        (["--report", "program/__main__.py", "program"], "program/__main__.py: this is the script"),
        (["--host-tracer-level", "4", "script.py"], "Invalid value for '--host-tracer-level'"),
        ([], "Missing argument 'SCRIPT'"),
    ],
)
def test_is_refused_before_the_script_starts(folder: Path, words: list[str], said: str) -> None:
    script(folder, "print('started')")
    (folder / "folder").mkdir()
    (folder / "program").mkdir()
    script(folder / "program", "print('started')", "__main__.py")
    (folder / "link.html").symlink_to("script.py")
    old = folder / "traceanalyzer-logs" / "plugins" / "profile" / "old"
    old.mkdir(parents=True)
    (old / "host.xplane.pb").write_bytes(b"x")
    before = {*folder.rglob("*")}
    done = captured(words, folder)
    assert (folder / "script.py").read_text() == "print('started')"
    assert (done.code, done.out) == (2, b"")
    assert done.err.count(b"\n") == 1
    assert done.ours[0].startswith(said)
    assert {*folder.rglob("*")} == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write everywhere")
def test_a_log_directory_of_somebody_else_is_refused(folder: Path) -> None:
    (folder / "logs").mkdir(mode=0o500)
    done = captured(["--logdir", "logs", script(folder, "print(1)")], folder)
    assert (done.code, done.out) == (2, b"")
    assert done.ours[0].startswith("logs: nothing can be written there (permission denied)")


def test_no_room_for_temporary_files_is_told_before(folder: Path) -> None:
    done = captured([script(folder, "print(1)")], folder, TMPDIR="/proc/1")
    assert done.code in (0, 2)  # Python goes on to other folders for temporary files


def test_what_is_recorded_is_as_asked(folder: Path) -> None:
    """The settings that the recorder gets, seen from the inside."""
    code = "import json, sys, _traceanalyzer_recorder.program as p, gc\n" + dedent(
        """
        [program] = [o for o in gc.get_objects() if type(o).__name__ == "_Program"]
        print(json.dumps(program._settings._asdict()))
        """
    )
    name = script(folder, code)
    words = ["--logdir", "logs", "--run", "mine", "--host-tracer-level", "3", "--python-tracer"]
    words += ["--no-device-tracer", "--after", "1.5s", "--for", "2m"]
    settings = json.loads(captured([*words, name], folder).out)
    assert settings["logdir"] == str(folder / "logs")
    assert settings["run"] == "mine"
    assert settings["window"] == {"kind": "time", "after_s": 1.5, "for_s": 120.0}
    assert settings["host_tracer_level"] == 3
    assert settings["python_tracer_level"] == 1
    assert settings["device_tracer_level"] == 0
    assert settings["quiet_token"]
    settings = json.loads(captured(["--steps", "10:20", name], folder).out)
    assert settings["window"] == {"kind": "steps", "first": 10, "last": 20}
    one_step = json.loads(captured(["--steps", "1:1", name], folder).out)
    assert one_step["window"] == {"kind": "steps", "first": 1, "last": 1}
    at_once = json.loads(captured(["--after", "0s", name], folder).out)
    assert at_once["window"] == {"kind": "time", "after_s": 0.0, "for_s": 10.0}
    assert settings["host_tracer_level"] == 2


def test_paths_are_told_in_one_line(folder: Path) -> None:
    name = script(folder, "import tensorflow as tf\ntf.constant(1) + 1")
    done = captured(["--logdir", "my\nlogs", "--report", "my\x1b\npage.html", name], folder)
    recorded, _, page = done.ours
    assert r" in my\nlogs/plugins/profile/" in recorded
    assert page == r"the report: my\x1b\npage.html"
    assert b"logs/.traceanalyzer" not in done.err
    assert (folder / "my\x1b\npage.html").is_file()

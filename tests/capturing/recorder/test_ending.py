"""However a program ends, the recorder is finished first, once, and the end is what it was."""

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.architecture.toolchain import ROOT

RECORDER = ROOT / "traceanalyzer" / "capturing" / "recorder"
# Loads the module as the launcher does: by path. Writes down each end it is told of.
WATCH = f"""
import sys
from importlib.util import module_from_spec, spec_from_file_location
folder = {str(RECORDER)!r}
spec = spec_from_file_location(
    "recorder", folder + "/__init__.py", submodule_search_locations=[folder]
)
package = sys.modules["recorder"] = module_from_spec(spec)
spec.loader.exec_module(package)
from recorder import ending

def finish(reason):
    with open("ends", "a") as file:
        file.write(reason + "\\n")

ending.watch_ending(finish)
ending.watch_signals()
import atexit, os, signal, threading, time
"""


class Done:
    def __init__(self, folder: Path, code: str, *, watched: bool = True) -> None:
        program = folder / "program.py"
        program.write_text((WATCH if watched else "import os, signal") + textwrap.dedent(code))
        done = subprocess.run(
            [sys.executable, program.name],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        ends = folder / "ends"
        self.ends = ends.read_text().split() if ends.exists() else []


@pytest.mark.parametrize(
    ("code", "status", "end"),
    [
        ("sys.exit(3)", 3, "exit"),
        ("raise ValueError('mine')", 1, "exit"),
        ("os._exit(4)", 4, "os._exit"),
        ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)", -signal.SIGTERM, "signal"),
        ("os.kill(os.getpid(), signal.SIGHUP); time.sleep(9)", -signal.SIGHUP, "signal"),
        ("os.kill(os.getpid(), signal.SIGINT); time.sleep(9)", -signal.SIGINT, "exit"),
        ("os.execvp('true', ['true'])", 0, "os.exec"),
        ("os.execlpe('true', 'true', os.environ)", 0, "os.exec"),
        # Another program's handler, and one that ignores, are the program's business.
        (
            (
                "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
                "os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)"
            ),
            7,
            "exit",
        ),
        (
            (
                "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                "os.kill(os.getpid(), signal.SIGTERM); sys.exit(8)"
            ),
            8,
            "exit",
        ),
        (
            (
                "signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
                "os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)"
            ),
            -signal.SIGTERM,
            "",
        ),
    ],
)
def test_ends_as_without_us(tmp_path: Path, code: str, status: int, end: str) -> None:
    done = Done(tmp_path, code)
    assert done.code == status, done.err
    assert done.ends == ([end] if end else [])
    assert "ending" not in done.err


def test_an_exec_that_fails_ends_nothing(tmp_path: Path) -> None:
    done = Done(
        tmp_path,
        """
        try:
            os.execvp("no-such-program", ["no-such-program"])
        except FileNotFoundError as error:
            print(error)
        open("ends", "a").write("went on ")
        """,
    )
    assert done.out == "[Errno 2] No such file or directory\n"
    assert done.ends == ["went", "on", "exit"]


def test_comes_after_the_programs_own_end_and_is_not_interrupted(tmp_path: Path) -> None:
    done = Done(
        tmp_path,
        """
        def note(word):
            with open("ends", "a") as file:
                file.write(word + "\\n")
        def slow(reason):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)
            finish(reason)
        ending._Ending.current._finish = slow
        atexit.register(note, "handler")
        threading.Timer(0.2, note, ["thread"]).start()
        sys.exit(5)
        """,
    )
    assert (done.code, done.err, done.ends) == (5, "", ["thread", "handler", "exit"])


def test_sigterm_waits_for_the_finish(tmp_path: Path) -> None:
    done = Done(
        tmp_path,
        """
        def slow(reason):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.3)
            finish(reason)
        ending._Ending.current._finish = slow
        """,
    )
    assert (done.code, done.ends) == (-signal.SIGTERM, ["exit"])


def test_signals_wait_until_the_shield_is_down(tmp_path: Path) -> None:
    done = Done(
        tmp_path,
        """
        try:
            with ending.shielded():
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.1)
                print("whole")
        except KeyboardInterrupt:
            print("then")
        """,
    )
    assert done.out == "whole\nthen\n"


def test_a_long_call_does_not_keep_the_program_alive(tmp_path: Path) -> None:
    begin = time.monotonic()
    done = Done(
        tmp_path,
        """
        import ctypes
        threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGTERM]).start()
        # Waits, with the interpreter unlocked, and does not heed signals: as a graph does.
        libc = ctypes.CDLL(None)
        mask = (ctypes.c_ulong * 16)(*[2**64 - 1] * 16)
        libc.pthread_sigmask(0, mask, None)
        libc.usleep(30_000_000)
        """,
    )
    assert (done.code, done.ends) == (-signal.SIGTERM, ["signal"])
    assert time.monotonic() - begin < 20


def test_a_program_that_closes_what_it_did_not_open_goes_on(tmp_path: Path) -> None:
    """The pipe by which we hear of signals is closed too; its numbers are given to a file."""
    done = Done(
        tmp_path,
        """
        signal.signal(signal.SIGUSR1, lambda *_: print("handled"))
        os.closerange(3, 300)
        time.sleep(0.2)
        opened = [open("own", "w+") for _ in range(250)]
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(0.2)
        before = time.process_time()
        time.sleep(0.5)
        print(time.process_time() - before < 0.2, os.path.getsize("own"))
        """,
    )
    assert (done.code, done.out, done.err) == (0, "handled\nTrue 0\n", "")
    assert done.ends == ["exit"]


def test_a_fork_ends_as_if_we_were_not_there(tmp_path: Path) -> None:
    done = Done(
        tmp_path,
        """
        def child(end):
            pid = os.fork()
            if not pid:
                end()
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(child(lambda: os._exit(3)))
        print(child(lambda: sys.exit(4)))
        print(child(lambda: os.kill(os.getpid(), signal.SIGTERM)))
        print(child(lambda: os.execvp("true", ["true"])))
        time.sleep(0.7)  # whoever takes over signals in the parent would have by now
        """,
    )
    assert done.out.split() == ["3", "4", "-15", "0"], done.err
    assert (done.code, done.ends) == (0, ["exit"])


def test_a_traceback_shows_the_program_alone(tmp_path: Path) -> None:
    code = """
    def end():
        raise SystemError("mine")
    end()
    """
    with_us = Done(tmp_path, code).err
    without = Done(tmp_path, code, watched=False).err
    lines = [line for line in with_us.splitlines() if "program.py" not in line]
    assert lines == [line for line in without.splitlines() if "program.py" not in line]

"""A captured script prints, reads and ends as it would without the capture, or is refused."""

import json
import os
import resource
import signal
from pathlib import Path
from textwrap import dedent

import pytest

from tests.capturing.running import CAPTURE, PLAIN, Done, captured, finished, plain
from traceanalyzer.cli import main

SCRIPTS = {
    "what it sees": """
        import __main__, os, signal, sys
        print(sys.stdin.read().upper())
        print(sys.argv, sys.orig_argv, sys.path, sys.flags, sys.executable, __name__, __file__)
        print(os.getcwd(), {k: v for k, v in os.environ.items() if k != "_"}, sys.warnoptions)
        print(sys.stdin.fileno(), os.isatty(0), os.isatty(1), os.isatty(2), os.getpgrp() > 0)
        print(vars(__main__).keys(), __spec__, __builtins__, sys._xoptions)
        print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
        print([(s, signal.getsignal(s)) for s in signal.valid_signals()])
        """,
    "syntax error": "print('out')\nif True\n    pass",
    "exception": """
        import atexit, threading
        atexit.register(print, "late")
        thread = threading.Thread(target=lambda: 1 / 0)
        thread.start()
        thread.join()
        def f():
            raise ValueError("mine")
        f()
        """,
    "SystemExit": "import sys\nprint('out')\nsys.exit(3)",
    "os._exit": "import os, sys\nsys.stderr.write('part')\nsys.stderr.flush()\nos._exit(5)",
    "killed": "import os, signal\nprint('out', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)",
    "terminated": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "interrupted": "import os, signal\nos.kill(os.getpid(), signal.SIGINT)",
    "kills its group": """
        import os, signal
        signal.signal(signal.SIGTERM, lambda *_: print("handled", flush=True))
        os.killpg(0, signal.SIGTERM)
        """,
    "processes": """
        import multiprocessing, subprocess, sys

        def work(n):
            print("worker", file=sys.stderr)
            return n * n

        if __name__ == "__main__":
            code = "import sys; print('err', file=sys.stderr); sys.exit(4)"
            print(subprocess.run([sys.executable, "-c", code]).returncode)
            for way in ("fork", "spawn", "forkserver"):
                with multiprocessing.get_context(way).Pool(1) as pool:
                    print(pool.map(work, range(3)))
        """,
}


_QUICK = {"what it sees", "exception", "os._exit", "killed"}


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
    return done.without_ours, plain(words, folder, stdin=stdin, **variables)


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(code, id=name, marks=[] if name in _QUICK else pytest.mark.slow)
        for name, code in SCRIPTS.items()
    ],
)
def test_is_as_without_the_capture(folder: Path, tmp_path: Path, code: str) -> None:
    (tmp_path / "temporary").mkdir()
    words, temporary = [script(folder, code), "-x", "--", "a b"], str(tmp_path / "temporary")
    with_capture, without = both(words, folder, stdin=b"in\n", TMPDIR=temporary)
    assert with_capture == without
    # And where there was nothing to record, nothing is left.
    assert [file.name for file in folder.iterdir()] == [words[0]]
    assert not [*(tmp_path / "temporary").glob("traceanalyzer-*")]


@pytest.mark.parametrize("words", [["-m", "package"], ["program"]])
def test_runs_a_module_and_a_folder(folder: Path, words: list[str]) -> None:
    for name in ("package", "program"):
        (folder / name).mkdir()
        code = "import sys; print(sys.argv, sys.path[0], __spec__ and __spec__.name)"
        script(folder / name, code, "__main__.py")
    with_capture, without = both([*words, "--flag"], folder)
    assert with_capture == without


def test_passes_interpreter_options(folder: Path) -> None:
    name = script(folder, "import sys; print(sys.flags, sys.warnoptions, sys._xoptions)")
    options = ["-X", "dev", "-O", "-Wignore::UserWarning"]
    without = finished([*PLAIN, *options, name], folder)
    done = captured(["--python", " ".join([*PLAIN, *options]), name], folder)
    assert done.without_ours == without


def test_descriptors_are_inherited(folder: Path) -> None:
    code = """
        import os
        print(os.read(7, 9))
        try: os.fstat(2)
        except OSError: print("closed")
        """
    quoted = " ".join(f"'{word}'" for word in [*CAPTURE, script(folder, code)])
    done = finished(["/bin/bash", "-c", f"{quoted} 7<<<passed 2>&-"], folder)
    assert done == Done(0, b"b'passed\\n'\nclosed\n", b"")


def test_leaves_no_core(folder: Path) -> None:
    name = script(folder, "import os, resource\nresource.setrlimit(4, (0, 0))\nos.abort()")
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    words = ["/bin/bash", "-c", f'ulimit -S -c {"unlimited" if hard < 0 else hard}; exec "$@"']
    done = finished([*words, "bash", *CAPTURE, name], folder)
    assert done.code == -signal.SIGABRT
    assert [file.name for file in folder.iterdir()] == [name]


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


@pytest.mark.slow
@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_a_process_that_the_script_starts_runs_as_without_us(folder: Path, way: str) -> None:
    done = captured([script(folder, PROCESSES), way], folder)
    assert (done.code, done.out) == (0, b"2\n")
    assert any("child processes used" in line for line in done.ours)
    assert "nothing was recorded" in done.ours[-1]
    assert {file.name for file in folder.iterdir()} == {"script.py"}


@pytest.mark.parametrize("ends", ["1 / 0", "if"])
def test_a_script_that_ended_early_might_have_imported_tensorflow(folder: Path, ends: str) -> None:
    done = captured([script(folder, f"{ends}\nimport tensorflow")], folder)
    assert done.code != 0
    assert done.ours == ["the script ended before it imported TensorFlow: nothing was recorded"]


def test_a_tensorflow_that_is_too_old_is_none(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "old" / "tensorflow").mkdir(parents=True)
    script(tmp_path / "old" / "tensorflow", "__version__ = '2.11.0'", "__init__.py")
    name = script(folder, "import tensorflow; print(tensorflow.__version__)")
    with_capture, without = both([name], folder, PYTHONPATH=str(tmp_path / "old"))
    assert with_capture == without
    done = captured([name], folder, PYTHONPATH=str(tmp_path / "old"))
    assert [line for line in done.ours if "2.11.0 is too old" in line]
    assert done.ours[-1].endswith("nothing was recorded")


# --------------------------------------------------------------------------- refused early


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["missing.py"], "missing.py:"),
        (["folder"], "folder: a folder without __main__.py; name"),
        (["--python", "no-such-python", "script.py"], "--python no-such-python:"),
        (["--python", "./script.py", "script.py"], "--python ./script.py:"),
        (["--python", "", "script.py"], "--python:"),
        (["--python", "python3 -I", "script.py"], "--python: -I keeps"),
        (["--python", "python3 -X dev -OBE", "script.py"], "--python: -OBE keeps"),
        (["--logdir", "script.py/logs", "script.py"], "script.py/logs:"),
        (["--logdir", "", "script.py"], "Invalid value for '--logdir': ''"),
        (["--run", "..", "script.py"], "--run '..':"),
        (["--run", "old", "script.py"], "--run old:"),
        (["--steps", "0:1", "script.py"], "Invalid value for '--steps': '0:1'"),
        (["--steps", f"1:{'9' * 5000}", "script.py"], "Invalid value for '--steps': '1:999"),
        (["--for", "0s", "script.py"], "Invalid value for '--for': '0s'"),
        (["--after", "-1", "script.py"], "Invalid value for '--after': '-1'"),
        (["--steps", "1:2", "--for", "3", "script.py"], "--steps"),
        (["--report", "none/page.html", "script.py"], "none/page.html:"),
        (["--report", "folder", "script.py"], "folder:"),
        (["--report", "link.html", "script.py"], "link.html:"),
        (["--report", "script.py", "-m", "script"], "script.py:"),
        ([], "Missing argument 'SCRIPT'; see `traceanalyzer capture --help`"),
    ],
)
def test_is_refused_before_the_script_starts(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    words: list[str],
    names: str,
) -> None:
    monkeypatch.chdir(folder)
    script(folder, "print('started')")
    (folder / "folder").mkdir()
    (folder / "link.html").symlink_to("script.py")
    old = folder / "traceanalyzer-logs" / "plugins" / "profile" / "old"
    old.mkdir(parents=True)
    (old / "host.xplane.pb").write_bytes(b"x")
    before = {*folder.rglob("*")}
    with pytest.raises(SystemExit) as end:
        main(["capture", *words])
    out, err = capfd.readouterr()
    assert (end.value.code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"traceanalyzer: {names}")
    assert (folder / "script.py").read_text() == "print('started')"
    assert {*folder.rglob("*")} == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write everywhere")
def test_a_log_directory_of_somebody_else_is_refused(folder: Path) -> None:
    (folder / "logs").mkdir(mode=0o500)
    done = captured(["--logdir", "logs", script(folder, "print(1)")], folder)
    assert (done.code, done.out) == (2, b"")
    assert done.ours[0].startswith("logs: cannot be written to (permission denied)")


def test_what_is_recorded_is_as_asked(folder: Path) -> None:
    """The settings that the recorder gets, seen from the inside."""
    code = dedent(
        """
        import json
        from _traceanalyzer_recorder.ending import _Ending

        print(json.dumps(_Ending.current._finish.__self__._settings._asdict()))
        """
    )
    name = script(folder, code)
    words = ["--logdir", "logs", "--run", "mine", "--host-tracer-level", "3"]
    words += ["--after", "1.5s", "--for", "2m"]
    settings = json.loads(captured([*words, name], folder).out)
    assert settings["logdir"] == str(folder / "logs")
    assert settings["run"] == "mine"
    assert settings["window"] == {"kind": "time", "after_s": 1.5, "for_s": 120.0}
    assert settings["host_tracer_level"] == 3
    settings = json.loads(captured(["--steps", "10:20", name], folder).out)
    assert settings["window"] == {"kind": "steps", "first": 10, "last": 20}
    at_once = json.loads(captured(["--after", "0s", name], folder).out)
    assert at_once["window"] == {"kind": "time", "after_s": 0.0, "for_s": 10.0}
    assert settings["host_tracer_level"] == 2

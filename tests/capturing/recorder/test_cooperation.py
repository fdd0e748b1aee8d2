"""The recorder around real programs that want the profiler, or the disk, for themselves."""

import json
import os
import runpy
import subprocess
import sys
import textwrap
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.toolchain import ROOT
from tests.emulator.oracle import the_oracle
from traceanalyzer.capturing.recorder.program import Settings, prepare
from traceanalyzer.trace.discovery import find_runs
from traceanalyzer.trace.files import read_host
from traceanalyzer.trace.xplane import profile_options

STARTUP = ROOT / "traceanalyzer" / "capturing" / "recorder" / "startup"


def recorded(settings: str, program: str) -> None:
    """Run a program with the recorder, in the oracle's fork."""
    os.chdir(Path(program).parent)
    prepare(settings)
    runpy.run_path(program, run_name="__main__")


def recorded_without_a_profiler(settings: str, program: str) -> None:
    """The same where TensorFlow's profiler does not start."""
    profiler = import_module("tensorflow.python.profiler.internal._pywrap_profiler")

    class Session:
        def start(self, *_: object) -> None:
            raise OSError("no room")  # noqa: EM101, TRY003

    profiler.ProfilerSession = Session
    profiler.start_server = Session().start
    recorded(settings, program)


class Done:
    """A program that was run under the recorder."""

    def __init__(
        self,
        folder: Path,
        code: str,
        *,
        is_fresh: bool = False,
        run: Callable[[str, str], None] = recorded,
        **window: Any,  # noqa: ANN401 - JSON
    ) -> None:
        work = folder / "work"
        work.mkdir()
        self.logs = folder / "logs"
        settings = work / "settings.json"
        recording = Settings(str(work), str(self.logs), "run", "host", host_tracer_level=3)
        if window:
            recording = recording._replace(window=window)
        settings.write_text(json.dumps(recording._asdict()))
        program = folder / "program.py"
        program.write_text(textwrap.dedent(code))
        if is_fresh:
            self._start(folder, settings)
        else:
            self._fork(run, program, settings)
        journal = work / "journal.jsonl"
        self.journal = [json.loads(line) for line in journal.read_text().splitlines()]

    def _start(self, folder: Path, settings: Path) -> None:
        """Run it as the launcher does: in an interpreter that has the recorder on its path."""
        done = subprocess.run(
            [sys.executable, "program.py"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(STARTUP), "TRACEANALYZER_CAPTURE": str(settings)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def _fork(self, run: Callable[[str, str], None], program: Path, settings: Path) -> None:
        """Run it where TensorFlow is imported already."""
        done = the_oracle().run(run, str(settings), str(program), gpus=0)
        self.code, self.out, self.err = done.exit_code, done.stdout, done.stderr

    def records(self, kind: str) -> list[dict[str, Any]]:
        return [record for record in self.journal if record["kind"] == kind]

    def traces(self) -> dict[str, bytes]:
        """Each session's trace by its run, in order."""
        found = {}
        for session in self.records("session"):
            if session["trace"]:
                trace = Path(session["trace"])
                found[trace.parent.name] = trace.read_bytes()
        return found


@pytest.mark.slow
def test_a_program_that_profiles_itself(tmp_path: Path) -> None:
    done = Done(
        tmp_path,
        """
        import os
        def fork():
            if not os.fork():
                os._exit(0)
            os.wait()
        fork()
        import tensorflow as tf
        profiler = tf.profiler.experimental
        def function(name):
            return tf.function(lambda x: tf.tanh(x, name=name))
        x = tf.ones([2])
        function("before")(x)
        profiler.start("own")
        function("during")(x)
        try:
            profiler.start("own")
        except Exception as error:
            print(type(error).__name__, error)
        profiler.stop()
        function("between")(x)
        try:
            profiler.stop()
        except Exception as error:
            print(type(error).__name__, error)
        profiler.start("")  # as Keras warms up
        profiler.stop(save=False)
        fork()
        with tf.compat.v1.Session(graph=tf.Graph()) as session:
            with session.graph.as_default():
                print(session.run(tf.tanh(tf.zeros([1]), name="after")))
        raise SystemExit(3)
        """,
        is_fresh=True,
    )
    assert done.code == 3
    assert "Traceback" not in done.err
    assert done.out == (
        "AlreadyExistsError Another profiler is running.\n"
        "UnavailableError Cannot export profiling results. No profiler is running.\n"
        "[0.]\n"
    )
    traces = done.traces()
    words = {"run": b"before", "run-script-1": b"during", "run-2": b"between", "run-3": b"after"}
    assert list(traces) == list(words)
    for run, word in words.items():
        for each in words.values():
            assert (each + b":Tanh" in traces[run]) == (each == word), (run, each)
    for run in ("run", "run-2", "run-3"):
        (found,) = find_runs(done.logs / "plugins" / "profile" / run)
        options = profile_options(read_host(found.hosts[0]))
        assert options is None or options.host_tracer_level == 3
        assert b"ScheduleReady" in traces[run]  # an event of level 3
    assert os.listdir(done.logs) == ["plugins"]  # noqa: PTH208
    assert done.records("note") == []
    sequences = done.records("eager")[-1]["sequences"]
    assert {s["session"] for s in sequences} <= set(range(len(done.records("session"))))


@pytest.mark.slow
def test_a_model_whose_callback_profiles(tmp_path: Path) -> None:
    done = Done(
        tmp_path,
        """
        import numpy as np
        import tensorflow as tf
        model = tf.keras.Sequential([tf.keras.layers.Dense(2)])
        model.compile("sgd", "mse")
        callback = tf.keras.callbacks.TensorBoard("own", profile_batch=(3, 4))
        model.fit(np.ones((24, 3)), np.ones((24, 2)), 4, verbose=0, callbacks=[callback])
        print("done")
        """,
        is_fresh=True,
    )
    assert (done.code, done.out) == (0, "done\n"), done.err
    methods = [s["method"] for s in done.records("session") if s["trace"]]
    assert methods.count("script") == 1
    assert len(methods) >= 3
    [own] = (tmp_path / "own").rglob("*.xplane.pb")
    assert (done.logs / "plugins/profile/run-script-1/host.xplane.pb").samefile(own)


def test_steps_of_a_program(tmp_path: Path) -> None:
    done = Done(
        tmp_path,
        """
        import tensorflow as tf
        @tf.function
        def step(x):
            return tf.tanh(x)
        for i in range(30):
            with tf.profiler.experimental.Trace("train", step_num=i, _r=1):
                step(tf.ones([2]))
        """,
        kind="steps",
        first=10,
        last=12,
    )
    [session] = done.records("session")
    assert session["reason"] == "from call 10 of step, to call 12"
    [trace] = done.traces().values()
    assert b"train" in trace
    assert b"graph_type" not in trace  # we leave the marking of steps to the program
    sequences = done.records("eager")[-1]["sequences"]
    assert len(sequences) == 1
    assert not done.records("note")


def test_a_log_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file")
    done = Done(
        tmp_path,
        """
        import tensorflow as tf
        print(tf.tanh(0.0).numpy())
        raise ValueError("mine")
        """,
    )
    assert (done.code, done.out) == (1, "0.0\n")
    assert "ValueError: mine\n" in done.err
    assert done.err.count("Traceback") == 1
    assert [s["trace"] for s in done.records("session")] == [None]
    assert "trace_not_written" in [n["id"] for n in done.records("note")]
    assert done.records("finished")


def test_a_profiler_that_does_not_start(tmp_path: Path) -> None:
    program = "import tensorflow as tf\nprint(tf.tanh(0.0).numpy())"
    done = Done(tmp_path, program, run=recorded_without_a_profiler)
    assert (done.code, done.out) == (0, "0.0\n"), done.err
    assert done.records("session") == []
    assert "profiler_not_started" in [n["id"] for n in done.records("note")]
    assert done.records("finished")


def test_the_function_of_a_dataset_is_let_go_while_it_is_recorded(tmp_path: Path) -> None:
    done = Done(
        tmp_path,
        """
        import gc
        import weakref
        import tensorflow as tf
        alive = []
        def use_dataset():
            numbers = tf.data.Dataset.range(3).map(lambda n: n + 1)
            alive.append(weakref.ref(numbers._map_func.function))
            list(numbers)
        for _ in range(5):
            use_dataset()
            gc.collect()
        print(sum(each() is not None for each in alive))
        """,
    )
    assert (done.code, done.out) == (0, "0\n"), done.err


@pytest.mark.slow
def test_other_import_hooks_run_and_the_program_is_recorded(tmp_path: Path) -> None:
    done = Done(
        tmp_path,
        """
        import importlib.machinery
        import sys
        import wrapt  # TensorFlow needs it
        class Finder:
            def find_spec(self, name, path=None, target=None):
                if name != "tensorflow":
                    return None
                spec = importlib.machinery.PathFinder.find_spec(name, path)
                execute = spec.loader.exec_module
                def run(module):
                    print("begin")
                    execute(module)
                    print("end")
                spec.loader.exec_module = run
                return spec
        @wrapt.when_imported("tensorflow")
        def imported(module):
            print(module.tanh(0.0).numpy())
        @wrapt.when_imported("tensorflow")
        def fails(module):
            module.function(lambda x: x + 1)(1)
            raise SystemExit(7)
        sys.meta_path.insert(1, Finder())
        import tensorflow
        """,
        is_fresh=True,
    )
    assert (done.code, done.out) == (7, "begin\nend\n0.0\n"), done.err
    assert done.records("function")
    assert done.records("finished")

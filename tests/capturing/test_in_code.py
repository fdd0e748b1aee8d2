"""Capturing a block of code, and some steps of Keras."""

import textwrap
from pathlib import Path

import pytest

from tests.emulator.oracle import Outcome, the_oracle
from traceanalyzer.capture_file import files
from traceanalyzer.capturing import in_code
from traceanalyzer.capturing.in_code import Capture, capture
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.trace.xplane import ProfileOptions

DEFAULT_LEVELS = ProfileOptions(host_tracer_level=2, device_tracer_level=1, python_tracer_level=0)


def run(folder: Path, code: str) -> Outcome:
    """Run a program in a process that has imported TensorFlow."""
    program = folder / "program.py"
    program.write_text(f"import os; os.chdir({str(folder)!r})\n" + textwrap.dedent(code))
    return the_oracle().run(program, gpus=0)


def test_captures_a_block(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import sys
        import tensorflow as tf
        import traceanalyzer

        @tf.function
        def during(x):
            return tf.sin(x, name="in_the_block")

        with traceanalyzer.capture("logs", run="one") as captured:
            x = tf.ones([2])
            during(x)
            tf.cos(x)
            print("of the program", file=sys.stderr)
        print(captured.run_path, captured.notes)
        print(captured.report())
        try:
            with traceanalyzer.capture("logs", run="two"):
                raise KeyError("of the block")
        except KeyError as error:
            print(error, error.__traceback__.tb_next)
        try:
            with traceanalyzer.capture("logs", run="one"):
                pass
        except traceanalyzer.TraceAnalyzerError as error:
            print(error)
        """,
    )
    assert done.exit_code == 0, done.stderr
    path = tmp_path / "logs" / "plugins" / "profile" / "one"
    assert done.stdout.splitlines()[:3] == [
        f"{path} []",
        "traceanalyzer-report.html",
        "'of the block' None",
    ]
    assert "already exists in" in done.stdout
    assert (tmp_path / "traceanalyzer-report.html").stat().st_size > 10_000
    assert "of the program\n" in done.stderr
    [trace] = path.glob("*.xplane.pb")
    assert b"in_the_block:Sin" in trace.read_bytes()
    capture_file = files.read(files.path_beside(trace))
    assert capture_file is not None
    assert capture_file.complete
    [session] = capture_file.sessions
    assert session.requested == DEFAULT_LEVELS
    assert [f.name.startswith("__inference_during_") for f in capture_file.functions] == [True]
    assert "captured_in_code" in {note.id for note in capture_file.notes}
    assert {s.op for s in capture_file.signatures} >= {"Cos"}
    assert {"tf.cos(x)", 'return tf.sin(x, name="in_the_block")'} <= {
        f.text for f in capture_file.frames
    }
    assert capture_file.command is None
    assert (tmp_path / "logs" / "plugins" / "profile" / "two").is_dir()


@pytest.mark.slow
def test_captures_some_steps_of_keras(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        import numpy as np
        import tensorflow as tf
        import traceanalyzer
        model = tf.keras.Sequential([tf.keras.layers.Dense(2)])
        model.compile("sgd", "mse")
        callback = traceanalyzer.capture_callback("logs", steps=(3, 4))
        model.fit(np.ones((40, 3)), np.ones((40, 2)), 4, verbose=0, callbacks=[callback])
        print(callback.captured.trace.exists(), callback.captured.notes)
        """,
    )
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "True []\n"


class Told:
    """Stands in for a capture."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.fails = False

    def __enter__(self) -> None:
        if self.fails:
            raise TraceAnalyzerError("no room")  # noqa: EM101, TRY003
        self.told.append("begin")

    def __exit__(self, *_: object) -> None:
        if self.told == ["begin"]:
            self.told.append("end")


def fit(steps: in_code._StepsCapture, batches: int) -> None:
    steps.on_train_begin()
    for batch in range(batches):
        steps.on_train_batch_begin(batch)
        steps.on_train_batch_end(batch)
    steps.on_train_end()


@pytest.mark.parametrize(
    ("batches", "told"), [(9, []), (15, ["begin", "end"]), (30, ["begin", "end"])]
)
def test_the_steps_are_counted_from_one(batches: int, told: list[str]) -> None:
    ours = Told()
    fit(in_code._StepsCapture(ours, 10, 20), batches)  # type: ignore[arg-type] # noqa: SLF001
    assert ours.told == told


def test_the_fit_goes_on_where_nothing_can_be_recorded(caplog: pytest.LogCaptureFixture) -> None:
    ours = Told()
    ours.fails = True
    fit(in_code._StepsCapture(ours, 1, 1), 3)  # type: ignore[arg-type] # noqa: SLF001
    assert "no room" in caplog.text


def test_one_capture_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Capture, "_under_way", capture("logs"))
    with pytest.raises(TraceAnalyzerError, match="another capture"), capture("logs"):
        pass
